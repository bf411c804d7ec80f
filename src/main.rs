//! The `zk-operator` binary: parses the command line and hands over to the library.

use std::process::ExitCode;

use clap::Parser as _;
use zk_operator::cli::Cli;

fn main() -> ExitCode {
    match Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("zk-operator: {error:#}");
            ExitCode::FAILURE
        }
    }
}
