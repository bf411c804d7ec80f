//! The command line of `zk-server`.

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use tracing::error;
use zk_server::cli::{Cli, Command, ConfigArgs, Exit};
use zk_server::{admin, control, log, offline, server};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(usage) => {
            // Printing help cannot fail in a way that matters.
            let _ = usage.print();
            return if usage.use_stderr() { Exit::Usage.into() } else { Exit::Clean.into() };
        }
    };
    log::init(cli.log_format);
    log::exit_on_panic();
    let done = match cli.command {
        Command::Start { config, exit_with_parent } => Ok(server::start(config.sources(), exit_with_parent)),
        Command::Drain { config, timeout } => drain(config, Duration::from_secs(timeout)),
        Command::Check { dir, log_dir, json } => {
            offline::check(&dir, log_dir, json, &mut std::io::stdout().lock())
        }
        Command::Dump { file, json } => offline::dump(&file, json, &mut std::io::stdout().lock()),
        Command::Version => {
            writeln!(std::io::stdout(), "{}", admin::FULL_VERSION).map(|()| Exit::Clean).map_err(Into::into)
        }
    };
    done.unwrap_or_else(|failure| {
        error!("{failure:#}");
        Exit::Other
    })
    .into()
}

/// Asks the server of this configuration to stop, prints what it did, and waits until its process is gone.
fn drain(config: ConfigArgs, timeout: Duration) -> anyhow::Result<Exit> {
    let config = match server::load_config(&config.sources()) {
        Ok(config) => config,
        Err(exit) => return Ok(exit),
    };
    let dir = &config.storage.data_dir;
    let began = Instant::now();
    let report = control::request_drain(dir, timeout)?;
    writeln!(std::io::stdout(), "{}", serde_json::to_string(&report)?)?;
    control::wait_for_end(dir, timeout.saturating_sub(began.elapsed()))?;
    Ok(if report.drained { Exit::Clean } else { Exit::Other })
}
