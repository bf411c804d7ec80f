//! A file system that really is full: nothing acknowledged is lost, the others go on, and the member comes back.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::client::Client;
use common::ensemble::{Ensemble, is_synced};
use common::process::{LIMIT, Member, eventually};

/// A file system of a few megabytes, unmounted when dropped.
struct SmallDisk {
    dir: PathBuf,
}

impl SmallDisk {
    /// # Panics
    /// Where this process may not mount: a test that could not look has not passed.
    fn mount(dir: &Path, mebibytes: u32) -> Self {
        std::fs::create_dir_all(dir).expect("directory");
        let options = format!("size={mebibytes}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(dir).status();
        assert!(
            mounted.is_ok_and(|status| status.success()),
            "mounting a small tmpfs failed: these tests need root"
        );
        Self { dir: dir.to_owned() }
    }

    /// Takes all the space there is.
    fn fill(&self) {
        let path = self.dir.join("ballast");
        let mut file = std::fs::File::create(path).expect("ballast");
        for chunk in [vec![1; 1 << 16], vec![1; 512], vec![1; 1]] {
            while std::io::Write::write_all(&mut file, &chunk).is_ok() {}
        }
    }

    fn free(&self) {
        std::fs::remove_file(self.dir.join("ballast")).expect("ballast");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a process that is being killed may still hold files.
        let _ = Command::new("umount").arg("-l").arg(&self.dir).status();
    }
}

/// Writes until `count` are acknowledged or an error comes; how many were.
fn write_some(client: &mut Client, prefix: &str, count: usize) -> usize {
    (0..count).take_while(|index| client.create(&format!("/{prefix}{index}"), &[b'z'; 2000]).is_ok()).count()
}

fn assert_all(client: &mut Client, prefix: &str, count: usize) {
    client.sync("/").expect("sync");
    let children = client.children("/").expect("children");
    for index in 0..count {
        assert!(
            children.contains(&format!("{prefix}{index}")),
            "/{prefix}{index} was acknowledged and is gone"
        );
    }
}

#[test]
fn a_standalone_server_on_a_full_disk_loses_nothing_acknowledged_and_serves_again_once_there_is_room() {
    let dir = tempfile::tempdir().expect("directory");
    let disk = SmallDisk::mount(&dir.path().join("data"), 8);
    let mut member = Member::new(dir.path(), "");
    let mut client = member.start();
    let before = write_some(&mut client, "before", 100);
    assert_eq!(before, 100);
    disk.fill();
    let until_full = write_some(&mut client, "full", 1000);
    assert!(until_full < 1000, "the disk is full");
    disk.free();
    if !member.is_running() {
        member.wait();
        member.spawn(&[]);
    }
    let mut client = member.client();
    assert_all(&mut client, "before", before);
    assert_all(&mut client, "full", until_full);
    assert_eq!(write_some(&mut client, "after", 10), 10);
    assert_eq!(member.terminate(), Some(0));
    let mut client = member.start();
    assert_all(&mut client, "before", before);
    assert_all(&mut client, "full", until_full);
    assert_all(&mut client, "after", 10);
}

/// An ensemble whose members each have a small disk of their own.
fn ensemble_on_small_disks(dir: &Path) -> (Ensemble, Vec<SmallDisk>) {
    let member_dir = |id: usize| dir.join(id.to_string());
    let disks = (1..=3).map(|id| SmallDisk::mount(&member_dir(id).join("data"), 12)).collect();
    (Ensemble::new(3, member_dir, ""), disks)
}

/// Starts the member again if it gave up, as an operator would once there is room.
fn bring_back(ensemble: &mut Ensemble, index: usize) {
    eventually("the member takes part again", || {
        let member = &mut ensemble.members[index];
        if !member.is_running() {
            member.wait();
            member.spawn(&[]);
        }
        is_synced(member)
    });
}

#[test]
fn a_follower_on_a_full_disk_leaves_and_rejoins_while_the_others_serve() {
    let dir = tempfile::tempdir().expect("directory");
    let (mut ensemble, disks) = ensemble_on_small_disks(dir.path());
    ensemble.start();
    let leader = ensemble.leader();
    let full = ensemble.others(leader)[0];
    let mut client = ensemble.members[leader].client();
    assert_eq!(write_some(&mut client, "before", 50), 50);
    disks[full].fill();
    assert_eq!(write_some(&mut client, "while", 300), 300, "the others serve");
    eventually("the member says that its disk is full", || {
        let member = &mut ensemble.members[full];
        !member.is_running() || member.facts().is_some_and(|facts| facts["disk_full"] == true)
    });
    assert!(ensemble.members[full].log().contains("no space left"), "the disk really was full");
    disks[full].free();
    bring_back(&mut ensemble, full);
    let mut client = ensemble.members[full].client();
    assert_all(&mut client, "before", 50);
    assert_all(&mut client, "while", 300);
}

#[test]
fn a_leader_on_a_full_disk_gives_way_and_nothing_acknowledged_is_lost() {
    let dir = tempfile::tempdir().expect("directory");
    let (mut ensemble, disks) = ensemble_on_small_disks(dir.path());
    ensemble.start();
    let leader = ensemble.leader();
    let mut client = ensemble.members[leader].client();
    assert_eq!(write_some(&mut client, "before", 50), 50);
    disks[leader].fill();
    let until_full = write_some(&mut client, "full", 1000);
    let others = ensemble.others(leader);
    let mut client = Client::connect_within(ensemble.members[others[0]].client_port, LIMIT);
    eventually("the others serve", || {
        write_some(&mut client, "while", 1) == 1 || {
            client = Client::connect_within(ensemble.members[others[0]].client_port, LIMIT);
            false
        }
    });
    assert!(
        until_full < 1000 && ensemble.members[leader].log().contains("no space left"),
        "the disk really was full"
    );
    disks[leader].free();
    bring_back(&mut ensemble, leader);
    for index in 0..3 {
        let mut client = ensemble.members[index].client();
        assert_all(&mut client, "before", 50);
        assert_all(&mut client, "full", until_full);
    }
}

#[test]
fn an_election_with_a_full_disk_writes_its_epoch_files_from_the_reserve() {
    let dir = tempfile::tempdir().expect("directory");
    let (mut ensemble, disks) = ensemble_on_small_disks(dir.path());
    ensemble.start();
    let leader = ensemble.leader();
    let others = ensemble.others(leader);
    let mut client = ensemble.members[leader].client();
    assert_eq!(write_some(&mut client, "before", 20), 20);
    disks[others[0]].fill();
    ensemble.members[leader].kill();
    // Both survivors are needed for a quorum, so the one on the full disk must get through the change of epoch.
    eventually("the survivors elect a leader and accept its epoch", || {
        let epochs: Vec<_> = others
            .iter()
            .filter_map(|index| ensemble.members[*index].facts())
            .filter(|facts| {
                facts["synced"] == true && facts["accepted_epoch_disk"] == facts["accepted_epoch"]
            })
            .map(|facts| facts["accepted_epoch"].clone())
            .collect();
        epochs.len() == 2 && epochs[0] == epochs[1]
    });
    disks[others[0]].free();
    let mut client = ensemble.members[others[0]].client();
    assert_all(&mut client, "before", 20);
    assert_eq!(write_some(&mut client, "after", 10), 10);
}

#[test]
fn a_snapshot_that_finds_no_room_costs_nothing_but_a_log_line() {
    let dir = tempfile::tempdir().expect("directory");
    // 900 KiB for snapshots; the logs are elsewhere. The first snapshot is due after 500 to 1000 nodes of 2 KB.
    let disk = SmallDisk::mount(&dir.path().join("data"), 4);
    std::fs::write(disk.dir.join("ballast"), vec![0_u8; (4096 - 900) << 10]).expect("ballast");
    let logs = dir.path().join("logs");
    std::fs::create_dir(&logs).expect("directory");
    let mut member = Member::new(dir.path(), &format!("snapCount=1000\ndataLogDir={}", logs.display()));
    let mut client = member.start();
    assert_eq!(write_some(&mut client, "n", 1500), 1500);
    eventually("the snapshot failed", || {
        member.log().lines().any(|line| line.contains("snapshot at") && line.contains("no space left"))
    });
    assert!(member.is_running(), "a failed snapshot ends nothing");
    disk.free();
    member.kill();
    let mut client = member.start();
    assert_all(&mut client, "n", 1500);
}
