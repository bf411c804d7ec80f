//! The command line and the exit codes.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// How the process ends; scripts and the operator rely on the numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Exit {
    /// Stopped as asked, with everything durable.
    Clean = 0,
    /// Anything that has no number of its own.
    Other = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
    /// What is on disk cannot be used; a person must look, or the member be resynchronized.
    CorruptData = 3,
    /// No space left for the log or an epoch file.
    DiskFull = 4,
    /// A port is taken by another process.
    PortInUse = 5,
    /// An fsync failed, so what is durable is unknown.
    DiskFailed = 6,
    /// A bug: a thread panicked.
    Panic = 70,
}

impl Exit {
    /// The number.
    pub const fn code(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

const EXIT_CODES: &str = "Exit codes:
  0   stopped as asked, everything is durable (check: no error; a start repairs what it warns of)
  1   any other failure (drain: no server, or not gone in time; check: errors were found; dump: the file is damaged)
  2   the command line or the configuration is wrong
  3   the data on disk is corrupt
  4   the disk is full
  5   a port is in use
  6   the disk failed: an fsync did not succeed
  70  a bug: a thread panicked";

/// A ZooKeeper quorum server.
#[derive(Debug, Parser)]
#[command(name = "zk-server", version, about, after_help = EXIT_CODES, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    /// How log lines look on standard error.
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the server in the foreground until it is told to stop.
    #[command(after_help = EXIT_CODES)]
    Start {
        #[command(flatten)]
        config: ConfigArgs,
        /// Drain and stop when the parent process is gone. With its PID it is missed even if it ended before this
        /// process could look.
        #[arg(long, value_name = "PID", num_args = 0..=1, require_equals = true)]
        exit_with_parent: Option<Option<i32>>,
    },
    /// Ask the server of this configuration to stop gracefully, and wait until its process is gone.
    Drain {
        #[command(flatten)]
        config: ConfigArgs,
        /// Seconds to wait; the server goes on stopping if they are not enough.
        #[arg(long, default_value_t = 60)]
        timeout: u64,
    },
    /// Verify a data directory that no server uses: continuity, epochs, checksums, digests.
    Check {
        /// The data directory (`dataDir`).
        dir: PathBuf,
        /// The directory of the logs (`dataLogDir`), if it is another one.
        #[arg(long)]
        log_dir: Option<PathBuf>,
        #[arg(long)]
        json: bool,
    },
    /// Print a transaction log or a snapshot.
    Dump {
        file: PathBuf,
        #[arg(long)]
        json: bool,
    },
    /// Print the version.
    Version,
}

/// Where the configuration is.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// The configuration file, zoo.cfg.
    #[arg(long = "config", value_name = "FILE")]
    flag: Option<PathBuf>,
    /// The same, as upstream's scripts pass it.
    #[arg(value_name = "FILE", conflicts_with = "flag")]
    positional: Option<PathBuf>,
    /// A property, as `-Dzookeeper.key=value`. The file wins over it.
    #[arg(short = 'D', value_name = "KEY=VALUE")]
    defines: Vec<String>,
}

impl ConfigArgs {
    /// All sources of configuration.
    pub fn sources(self) -> crate::config::Sources {
        crate::config::Sources::from_env(self.flag.or(self.positional), self.defines)
    }
}

/// Form of log lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}
