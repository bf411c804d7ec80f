//! The command line of `zk-operator`.

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::{crd, local};

/// Runs ensembles of zk-server through the ZkEnsemble resource.
#[derive(Debug, Parser)]
#[command(name = "zk-operator", version, about)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the CustomResourceDefinition of ZkEnsemble as YAML.
    Crdgen,
    /// Run the ensemble a file describes as child processes of this machine, and follow edits of the file.
    Local(LocalArgs),
}

/// Arguments of `zk-operator local`.
#[derive(Clone, Debug, Args)]
pub struct LocalArgs {
    /// The ZkEnsemble to run: the same file `kubectl apply` takes.
    pub file: PathBuf,
    /// Where members keep their data, one directory each [default: a temporary directory removed at exit].
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// The zk-server to run when the file does not name one as `spec.image: local:PATH`
    /// [default: the zk-server beside this binary].
    #[arg(long, value_name = "PATH", env = "ZK_SERVER_BIN")]
    pub server_binary: Option<PathBuf>,
    /// Client port of member 1. Member k takes the k-th port from here; admin, quorum and election ports
    /// follow 100, 200 and 300 higher.
    #[arg(long, value_name = "N", alias = "client-port", default_value_t = 2181)]
    pub base_port: u16,
}

impl Cli {
    /// Runs the command until it is done, or for `local` until it is told to stop.
    ///
    /// # Errors
    /// Whatever kept the command from doing its work, in words for the person at the terminal.
    pub fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::Crdgen => Ok(std::io::stdout().write_all(crd::generate::yaml()?.as_bytes())?),
            Command::Local(args) => {
                tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(local::run(args))
            }
        }
    }
}
