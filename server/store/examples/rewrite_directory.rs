//! Reads a data directory and writes the same history into another one, through the public interface: the newest
//! snapshot by an installation, everything after it by appends. What a Java server makes of the result is checked by
//! `tests/golden/verify_with_java.sh`.
//!
//! Usage: `rewrite_directory FROM TO`. Copy FROM first if its repairs are not wanted.

use std::ops::ControlFlow;
use std::process::ExitCode;

use zk_jute::image::{SnapshotSink, SnapshotSource};
use zk_jute::snapshot::{SnapshotHead, SnapshotNode, SnapshotTail};
use zk_store::{FileDisk, Store, StoreConfig, StoreError};

#[derive(Default)]
struct Image {
    head: SnapshotHead,
    nodes: Vec<SnapshotNode>,
    tail: SnapshotTail,
}

impl SnapshotSink for Image {
    fn head(&mut self, head: SnapshotHead) {
        self.head = head;
    }

    fn node(&mut self, node: SnapshotNode) -> Result<(), String> {
        self.nodes.push(node);
        Ok(())
    }
}

impl SnapshotSource for Image {
    fn head(&self) -> SnapshotHead {
        self.head.clone()
    }

    fn visit_nodes(&self, visit: &mut dyn FnMut(&SnapshotNode) -> ControlFlow<()>) -> bool {
        self.nodes.iter().all(|node| visit(node).is_continue())
    }

    fn tail(&self) -> SnapshotTail {
        self.tail
    }
}

fn rewrite(from: &str, to: &str) -> Result<(), StoreError> {
    let mut old = Store::open(FileDisk, StoreConfig::new(from));
    let found = old.recover(Image::default)?;
    let mut new = Store::open(FileDisk, StoreConfig::new(to));
    new.recover(Image::default)?;
    new.write_accepted_epoch(found.accepted)?;
    new.write_current_epoch(found.current)?;
    if let Some(zxid) = found.snapshot_zxid {
        let image = Image { tail: found.snapshot_tail, ..found.image };
        new.install_snapshot(&image, zxid, &[])?;
    }
    for txn in &found.tail {
        new.append(txn.zxid(), &txn.bytes)?;
    }
    new.sync()?;
    new.write_clean_marker(new.last_durable())?;
    println!("{} transactions up to {}", found.tail.len(), new.last_durable());
    Ok(())
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (Some(from), Some(to)) = (args.next(), args.next()) else {
        eprintln!("usage: rewrite_directory FROM TO");
        return ExitCode::from(2);
    };
    match rewrite(&from, &to) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
