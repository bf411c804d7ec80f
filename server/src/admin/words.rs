//! The four-letter words (upstream package `org.apache.zookeeper.server.command`), text for text.

use std::fmt::Write;

use zk_core::client::is_four_letter_word;
use zk_core::facts::{Facts, Role};

use super::environment::environment;
use super::{Admin, FULL_VERSION, NOT_SERVING, dir_size, java_double, monitor, trace_mask};
use crate::net::connections::ConnView;

/// What telnet sends when it closes; answered by closing, not by a log line about a malformed frame.
const TELNET_CLOSE: [u8; 4] = [0xff, 0xf4, 0xff, 0xfd];

/// What the first four bytes of a connection are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum First {
    /// A word; `stmk` is followed by eight bytes.
    Word(&'static str),
    TelnetClose,
    /// The length of a frame.
    Frame,
}

/// Tells words from lengths.
pub fn classify(bytes: [u8; 4]) -> First {
    if bytes == TELNET_CLOSE {
        return First::TelnetClose;
    }
    is_four_letter_word(&bytes).map_or(First::Frame, First::Word)
}

/// The answer to `word`. `mask` is what followed `stmk`.
pub async fn answer(admin: &Admin, word: &'static str, mask: i64) -> String {
    if !admin.config.words.allows(word) {
        return format!("{word} is not executed because it is not in the whitelist.\n");
    }
    match word {
        "ruok" => return "imok".to_owned(),
        "gtmk" => return trace_mask::get().to_string(),
        "stmk" => {
            trace_mask::set(mask);
            return mask.to_string();
        }
        "envi" => return envi(),
        _ => {}
    }
    let facts = admin.picture().await.facts;
    if !facts.serving {
        return match word {
            "isro" => "null".to_owned(),
            "hash" => NOT_SERVING.to_owned(),
            _ => format!("{NOT_SERVING}\n"),
        };
    }
    let mut out = String::new();
    run(admin, word, &facts, &mut out).map_or_else(|_| String::new(), |()| out)
}

fn run(admin: &Admin, word: &str, facts: &Facts, out: &mut String) -> std::fmt::Result {
    match word {
        "conf" => conf(admin, out),
        "cons" => {
            for conn in admin.connections.all() {
                connection(&conn, false, out)?;
                out.push('\n');
            }
            out.push('\n');
            Ok(())
        }
        "crst" => {
            admin.connections.all().iter().for_each(|conn| conn.ask_reset());
            writeln!(out, "Connection stats reset.")
        }
        "dirs" => {
            writeln!(out, "datadir_size: {}", dir_size(&admin.snap_dir()))?;
            writeln!(out, "logdir_size: {}", dir_size(&admin.log_dir()))
        }
        "dump" => dump(admin, facts, out),
        "hash" => {
            for (zxid, digest) in admin.shared.tree.read().digest_log().iter() {
                writeln!(out, "{:x}: {digest}", zxid.0)?;
            }
            Ok(())
        }
        "isro" => write!(out, "rw"),
        "mntr" => mntr(admin, facts, out),
        "srst" => {
            admin.metrics.reset_server_stats();
            writeln!(out, "Server stats reset.")
        }
        "stat" | "srvr" => stat(admin, facts, word == "stat", out),
        "wchs" => {
            let summary = admin.shared.watches.lock().summary();
            writeln!(out, "{} connections watching {} paths", summary.connections, summary.paths)?;
            writeln!(out, "Total watches:{}", summary.total)
        }
        "wchc" => watches_by_session(admin, out),
        "wchp" => watches_by_path(admin, out),
        other => unreachable!("{other} is in the list of words"),
    }
}

fn envi() -> String {
    let mut out = "Environment:\n".to_owned();
    for (key, value) in environment() {
        let _ = writeln!(out, "{key}={value}");
    }
    out
}

fn conf(admin: &Admin, out: &mut String) -> std::fmt::Result {
    let config = &admin.config;
    writeln!(
        out,
        "clientPort={}",
        config.client.address.as_ref().map_or(-1, |address| i32::from(address.port))
    )?;
    writeln!(out, "secureClientPort=-1")?;
    writeln!(out, "dataDir={}", admin.snap_dir().display())?;
    writeln!(out, "dataDirSize={}", dir_size(&admin.snap_dir()))?;
    writeln!(out, "dataLogDir={}", admin.log_dir().display())?;
    writeln!(out, "dataLogSize={}", dir_size(&admin.log_dir()))?;
    writeln!(out, "tickTime={}", config.peer.tick_ms)?;
    writeln!(out, "maxClientCnxns={}", config.client.max_per_ip)?;
    writeln!(out, "minSessionTimeout={}", config.client.min_session_timeout)?;
    writeln!(out, "maxSessionTimeout={}", config.client.max_session_timeout)?;
    writeln!(out, "clientPortListenBacklog={}", config.client.backlog.map_or(-1, i64::from))?;
    let Some(ensemble) = &config.ensemble else { return writeln!(out, "serverId=0") };
    writeln!(out, "serverId={}", config.my_id)?;
    writeln!(out, "initLimit={}", config.peer.init_limit)?;
    writeln!(out, "syncLimit={}", config.peer.sync_limit)?;
    writeln!(out, "electionAlg=3")?;
    if let Some(mine) = ensemble.servers.get(&config.my_id) {
        let ports = |addresses: &[crate::config::HostPort]| {
            addresses.iter().map(|address| address.port.to_string()).collect::<Vec<_>>().join("|")
        };
        writeln!(out, "electionPort={}", ports(&mine.election))?;
        writeln!(out, "quorumPort={}", ports(&mine.quorum))?;
        writeln!(out, "peerType={}", i32::from(!mine.voter))?;
    }
    writeln!(out, "membership: ")?;
    write!(out, "{}", ensemble.membership().to_text())
}

/// One connection as `cons` (or, `brief`, `stat`) shows it, without the end of the line.
fn connection(conn: &ConnView, brief: bool, out: &mut String) -> std::fmt::Result {
    let Some(info) = conn.info() else {
        return write!(out, " /{}[0](queued=0,recved=1,sent=0)", conn.remote);
    };
    // 1 is what upstream shows for a connection that is being read.
    write!(out, " /{}[1](queued={},recved={}", conn.remote, info.queued, info.packets_received)?;
    write!(out, ",sent={}", info.packets_sent)?;
    if !brief && info.session.0 != 0 {
        write!(out, ",sid=0x{:x},lop={}", info.session.0, info.last_op)?;
        write!(out, ",est={},to={}", info.established_ms, info.timeout_ms)?;
        if info.last_cxid >= 0 {
            write!(out, ",lcxid=0x{:x}", info.last_cxid)?;
        }
        write!(out, ",lzxid=0x{:x},lresp={}", info.last_zxid, info.last_response_ms)?;
        write!(out, ",llat={},minlat={}", info.last_latency_ms, info.min_latency_ms)?;
        write!(out, ",avglat={},maxlat={}", info.avg_latency_ms, info.max_latency_ms)?;
    }
    write!(out, ")")
}

/// When sessions expire is known to the core alone. A learner lists what upstream's learners list; a leader, which
/// upstream groups by expiry, lists the same below its own heading.
fn dump(admin: &Admin, facts: &Facts, out: &mut String) -> std::fmt::Result {
    let tree = admin.shared.tree.read();
    writeln!(out, "SessionTracker dump:")?;
    let count = tree.sessions().len();
    match facts.role {
        Role::Following | Role::Observing => writeln!(out, "Global Sessions({count}):")?,
        Role::Leading | Role::Standalone | Role::Loading | Role::Looking | Role::Draining | Role::Halted => {
            writeln!(out, "Session Sets (0)/({count}):")?;
        }
    }
    let mut sessions: Vec<_> = tree.sessions().collect();
    sessions.sort_unstable();
    for (session, timeout) in sessions {
        writeln!(out, "0x{:x}\t{timeout}ms", session.0)?;
    }
    writeln!(out, "ephemeral nodes dump:")?;
    writeln!(out, "Sessions with Ephemerals ({}):", tree.ephemerals().count())?;
    for (session, paths) in tree.ephemerals() {
        writeln!(out, "0x{:x}:", session.0)?;
        for path in paths {
            writeln!(out, "\t{path}")?;
        }
    }
    drop(tree);
    writeln!(out, "Connections dump:")?;
    let connections = admin.connections.all();
    writeln!(out, "Connections Sets (0)/({}):", connections.len())?;
    for conn in connections {
        let session = conn.info().map_or(0, |info| info.session.0);
        writeln!(out, "\tip: /{} sessionId: 0x{session:x}", conn.remote)?;
    }
    Ok(())
}

fn mntr(admin: &Admin, facts: &Facts, out: &mut String) -> std::fmt::Result {
    for (name, value) in monitor::texts(admin, facts) {
        writeln!(out, "zk_{name}\t{}", value.as_str().map_or_else(|| value.to_string(), str::to_owned))?;
    }
    for (name, value) in monitor::all(admin, facts) {
        writeln!(out, "zk_{name}\t{}", value.text())?;
    }
    Ok(())
}

fn stat(admin: &Admin, facts: &Facts, with_clients: bool, out: &mut String) -> std::fmt::Result {
    writeln!(out, "Zookeeper version: {FULL_VERSION}")?;
    if with_clients {
        writeln!(out, "Clients:")?;
        for conn in admin.connections.all() {
            connection(&conn, true, out)?;
            out.push('\n');
        }
        out.push('\n');
    }
    let latency = &admin.metrics.latency;
    writeln!(out, "Latency min/avg/max: {}/{}/{}", latency.min(), java_double(latency.avg()), latency.max())?;
    writeln!(out, "Received: {}", admin.metrics.packets_received.get())?;
    writeln!(out, "Sent: {}", admin.metrics.packets_sent.get())?;
    writeln!(out, "Connections: {}", admin.connections.count())?;
    writeln!(out, "Outstanding: {}", facts.outstanding)?;
    let tree = admin.shared.tree.read();
    writeln!(out, "Zxid: 0x{:x}", tree.last_processed().0)?;
    writeln!(out, "Mode: {}", admin.server_state(facts))?;
    writeln!(out, "Node count: {}", tree.node_count())?;
    if facts.role == Role::Leading {
        let (last, min, max) = admin.metrics.proposal_size.get();
        writeln!(out, "Proposal sizes last/min/max: {last}/{min}/{max}")?;
    }
    Ok(())
}

fn watches_by_session(admin: &Admin, out: &mut String) -> std::fmt::Result {
    let report = admin.shared.watches.lock().by_session();
    for (session, paths) in report {
        writeln!(out, "0x{:x}", session.0)?;
        for path in paths {
            writeln!(out, "\t{path}")?;
        }
    }
    out.push('\n');
    Ok(())
}

fn watches_by_path(admin: &Admin, out: &mut String) -> std::fmt::Result {
    let report = admin.shared.watches.lock().by_path();
    for (path, sessions) in report {
        writeln!(out, "{path}")?;
        for session in sessions {
            writeln!(out, "\t0x{:x}", session.0)?;
        }
    }
    out.push('\n');
    Ok(())
}
