//! `zk-load`: drives a ZooKeeper server of this machine, and says how it did as one line of JSON.
//!
//! Two modes. `run` keeps a number of requests in flight on each of many sessions and measures throughput, latency and the
//! server's CPU and memory. `probe` does one operation at a time on each session, moves on when a server goes away, and
//! measures the gap that a client sees in a failover. It speaks the wire protocol itself, with no client library, so that its own cost
//! stays far below that of what it measures. One invariant: targets are loopback addresses only.

mod histogram;
mod probe;
mod process;
mod rng;
mod run;
mod session;
mod wire;

use anyhow::{Result, ensure};
use clap::{Parser, Subcommand};
use std::net::SocketAddr;

#[derive(Parser)]
#[command(version, about = "Load generator and failover probe for ZooKeeper servers on this machine")]
struct Cli {
    #[command(subcommand)]
    mode: Mode,
}

#[derive(Subcommand)]
enum Mode {
    /// Many requests in flight: throughput, latency, CPU and memory of the server.
    Run(run::Options),
    /// One request at a time with reconnects: failed operations and gaps.
    Probe(probe::Options),
}

fn main() -> Result<()> {
    let line = match Cli::parse().mode {
        Mode::Run(options) => {
            only_loopback(&options.servers)?;
            serde_json::to_string(&run::run(&options)?)?
        }
        Mode::Probe(options) => {
            only_loopback(&options.servers)?;
            serde_json::to_string(&probe::probe(&options)?)?
        }
    };
    println!("{line}");
    Ok(())
}

fn only_loopback(servers: &[SocketAddr]) -> Result<()> {
    for server in servers {
        ensure!(server.ip().is_loopback(), "{server} is not a loopback address");
    }
    Ok(())
}
