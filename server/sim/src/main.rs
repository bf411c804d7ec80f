//! `zk-sim`: plays seeds, looks for ones that fail, and replays what failed.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::{Parser, Subcommand};
use zk_sim::options::Options;
use zk_sim::run::{Report, quiet_panics, run};
use zk_sim::scenario::{Scenario, difference};
use zk_sim::sweep::Sweep;

/// Deterministic simulation of ZooKeeper ensembles under faults.
#[derive(Parser)]
#[command(name = "zk-sim", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Plays one seed and writes its trace if it fails (or if asked to).
    Run {
        #[arg(long)]
        seed: u64,
        /// Where the trace goes; without it a failing seed's goes to `seed-N.trace` in this directory.
        #[arg(long)]
        trace: Option<PathBuf>,
        /// Switches on one named wrong behaviour of the core (needs the cargo feature `mutants`).
        #[arg(long)]
        mutant: Option<String>,
    },
    /// Plays seed after seed until the time is over, the count is reached, or one fails.
    Sweep {
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// First seed.
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// Number of seeds at most.
        #[arg(long)]
        count: Option<u64>,
        /// Runs side by side; as many as there are cores by default.
        #[arg(long)]
        threads: Option<usize>,
        /// Goes on after a failure and lists all failing seeds at the end.
        #[arg(long)]
        keep_going: bool,
        #[arg(long)]
        mutant: Option<String>,
    },
    /// Plays the seed of a trace again and checks that every step is the same.
    Replay { file: PathBuf },
    /// Plays a scenario file and prints its transcript; fails if a step or an oracle does, or if the transcript differs.
    Scenario {
        file: PathBuf,
        /// Writes the new transcript into the file.
        #[arg(long)]
        update: bool,
        #[arg(long)]
        mutant: Option<String>,
    },
}

fn main() -> Result<()> {
    quiet_panics();
    match Cli::parse().command {
        Command::Run { seed, trace, mutant } => {
            activate(mutant.as_deref())?;
            run_one(seed, trace.as_deref(), mutant.as_deref())
        }
        Command::Sweep { seconds, from, count, threads, keep_going, mutant } => {
            activate(mutant.as_deref())?;
            let all = Sweep::of(count.unwrap_or(u64::MAX));
            let threads = threads.unwrap_or(all.threads);
            sweep(&Sweep { from, limit: Duration::from_secs(seconds), keep_going, mutant, threads, ..all })
        }
        Command::Replay { file } => replay(&file),
        Command::Scenario { file, update, mutant } => {
            activate(mutant.as_deref())?;
            scenario(&file, update)
        }
    }
}

fn activate(mutant: Option<&str>) -> Result<()> {
    if let Some(name) = mutant
        && !zk_core::mutants::ALL.iter().any(|(known, _)| *known == name)
    {
        bail!("no mutant is called {name}");
    }
    zk_sim::sweep::activate(mutant);
    Ok(())
}

fn run_one(seed: u64, trace: Option<&Path>, mutant: Option<&str>) -> Result<()> {
    let report = run(Options::swarm(seed), true);
    println!("{}", summary(&report));
    let failed = report.violation.is_some();
    let default = PathBuf::from(format!("seed-{seed}.trace"));
    if let Some(path) = trace.or_else(|| failed.then_some(default.as_path())) {
        write_trace(path, &report, mutant)?;
        println!("trace: {}", path.display());
    }
    if failed { bail!("seed {seed} failed") } else { Ok(()) }
}

fn sweep(sweep: &Sweep) -> Result<()> {
    let found = sweep.play();
    let mutant = sweep.mutant.as_deref();
    for report in &found.failed {
        println!("{}\n  again: {}", summary(report), again(report.seed, mutant));
    }
    println!("{found}");
    let Some(first) = found.failed.first() else { return Ok(()) };
    activate(mutant)?;
    let path = PathBuf::from(format!("seed-{}.trace", first.seed));
    write_trace(&path, &run(Options::swarm(first.seed), true), mutant)?;
    println!("trace: {}", path.display());
    bail!("failing seeds: {:?}", found.failed.iter().map(|report| report.seed).collect::<Vec<_>>())
}

fn replay(file: &Path) -> Result<()> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut lines = text.lines();
    let head: serde_json::Value =
        serde_json::from_str(lines.next().unwrap_or_default()).context("the first line")?;
    let seed = head["seed"].as_u64().context("the first line names no seed")?;
    activate(head["mutant"].as_str())?;
    let report = run(Options::swarm(seed), true);
    for (number, (old, new)) in lines.by_ref().zip(&report.trace).enumerate() {
        if old != new {
            bail!(
                "line {} differs: the code is not the one that wrote this trace\n- {old}\n+ {new}",
                number + 2
            );
        }
    }
    println!("{}\nevery step was the same", summary(&report));
    Ok(())
}

fn scenario(file: &Path, update: bool) -> Result<()> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let scenario = Scenario::parse(&text);
    let played = scenario.play();
    print!("{}", played.transcript);
    if let Some(failure) = played.failure {
        bail!("{failure}");
    }
    match difference(&scenario.golden, &played.transcript) {
        Some(_) if update => {
            let text = scenario.with_transcript(&played.transcript);
            std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
        }
        Some(shown) => bail!("the transcript is another: {shown}"),
        None => Ok(()),
    }
}

fn write_trace(path: &Path, report: &Report, mutant: Option<&str>) -> Result<()> {
    let file = std::fs::File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    let mut out = std::io::BufWriter::new(file);
    let violation = report.violation.as_ref().map(ToString::to_string);
    let head = serde_json::json!({ "seed": report.seed, "mutant": mutant, "violation": violation });
    writeln!(out, "{head}")?;
    for line in &report.trace {
        writeln!(out, "{line}")?;
    }
    out.flush().context("the trace")
}

fn summary(report: &Report) -> String {
    let verdict =
        report.violation.as_ref().map_or("ok".to_owned(), |violation| format!("FAILED {violation}"));
    format!(
        "seed {}: {verdict} ({} steps, {} committed, {} answered, {} unknown, {} epochs, {:?})",
        report.seed,
        report.steps,
        report.committed,
        report.answered,
        report.unknown,
        report.epochs,
        report.counters
    )
}

fn again(seed: u64, mutant: Option<&str>) -> String {
    let feature = if mutant.is_some() { " --features mutants" } else { "" };
    let mutant = mutant.map_or(String::new(), |name| format!(" --mutant {name}"));
    format!("cargo run --profile sim -p zk-sim{feature} -- run --seed {seed}{mutant}")
}
