//! The operator of ZkEnsemble: it runs ensembles of `zk-server` and never bets their quorum.
//!
//! Dependencies point one way: `crd` knows nothing else; `plan` is pure and knows `crd` only; `probe` asks one
//! server for the facts `plan` wants; `local` carries plans out as child processes of this machine.

pub mod cli;
pub mod crd;
pub mod local;
pub mod plan;
pub mod probe;
