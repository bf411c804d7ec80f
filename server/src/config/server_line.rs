//! The value of `server.N=`: `host:quorum:election[:role][|...][;[clienthost:]clientport]` (upstream `QuorumServer`).
//!
//! Hosts stay the strings they are (invariant 12): they are resolved at each connection attempt, and two members are
//! the same member if their strings are.

use std::fmt;

/// A host, as written and without brackets, with a port.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct HostPort {
    pub host: String,
    pub port: u16,
}

impl HostPort {
    /// True if the host is an address that means "every interface".
    pub fn is_wildcard(&self) -> bool {
        matches!(self.host.parse::<std::net::IpAddr>(), Ok(address) if address.is_unspecified())
    }
}

impl fmt::Display for HostPort {
    /// IPv6 addresses in brackets, as upstream's `formatInetAddr`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// One member as its line describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerLine {
    /// Addresses for learners; more than one only with `multiAddress.enabled`.
    pub quorum: Vec<HostPort>,
    /// Addresses for elections, in the order of `quorum`.
    pub election: Vec<HostPort>,
    pub voter: bool,
    /// Where this member serves clients, if the line says so.
    pub client: Option<HostPort>,
}

const FORM: &str = "expected host:quorumPort:electionPort[:participant|observer][;[clientHost:]clientPort], \
                    several addresses joined by |";

impl ServerLine {
    /// Reads the text after `server.N=`. The error says what is wrong and what is allowed.
    pub fn parse(text: &str, multi_address: bool) -> Result<Self, String> {
        let (servers, client) = match text.split_once(';') {
            Some((servers, client)) => (servers, Some(parse_client(client)?)),
            None => (text, None),
        };
        let mut line = Self { quorum: Vec::new(), election: Vec::new(), voter: true, client };
        let mut role = None;
        for address in servers.split('|') {
            let this = line.add_address(address.trim())?;
            match (role, this) {
                (Some(known), Some(other)) if known != other => {
                    return Err("all addresses of one server must have the same role".to_owned());
                }
                (None, Some(first)) => role = Some(first),
                _ => {}
            }
        }
        if line.quorum.len() > 1 && !multi_address {
            return Err("several addresses need multiAddress.enabled=true".to_owned());
        }
        line.voter = role.unwrap_or(true);
        Ok(line)
    }

    /// Adds one `host:quorum:election[:role]`; the role, if given, is true for a participant.
    fn add_address(&mut self, text: &str) -> Result<Option<bool>, String> {
        let (host, rest) = split_host(text)?;
        let parts: Vec<&str> = rest.split(':').collect();
        let (quorum, election, role) = match parts[..] {
            [quorum, election] => (quorum, election, None),
            [quorum, election, role] => (quorum, election, Some(parse_role(role)?)),
            _ => return Err(format!("{text:?}: {FORM}")),
        };
        let (quorum, election) = (parse_port(quorum)?, parse_port(election)?);
        if quorum == election {
            return Err(format!("quorum port and election port must differ, both are {quorum}"));
        }
        self.quorum.push(HostPort { host: host.to_owned(), port: quorum });
        self.election.push(HostPort { host: host.to_owned(), port: election });
        Ok(role)
    }
}

impl fmt::Display for ServerLine {
    /// The canonical text: what notifications, NEWLEADER and `/zookeeper/config` carry.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut addresses: Vec<_> = self.quorum.iter().zip(&self.election).collect();
        addresses.sort();
        for (index, (quorum, election)) in addresses.into_iter().enumerate() {
            let separator = if index == 0 { "" } else { "|" };
            write!(f, "{separator}{quorum}:{}", election.port)?;
        }
        f.write_str(if self.voter { ":participant" } else { ":observer" })?;
        match &self.client {
            Some(client) => write!(f, ";{client}"),
            None => Ok(()),
        }
    }
}

fn parse_role(text: &str) -> Result<bool, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "participant" => Ok(true),
        "observer" => Ok(false),
        _ => Err(format!("{text:?} is no role: participant or observer")),
    }
}

fn parse_port(text: &str) -> Result<u16, String> {
    match text.trim().parse::<u16>() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(format!("{text:?} is no port: 1 to 65535")),
    }
}

fn parse_client(text: &str) -> Result<HostPort, String> {
    let text = text.trim();
    if !text.contains(':') {
        return Ok(HostPort { host: "0.0.0.0".to_owned(), port: parse_port(text)? });
    }
    let (host, port) = split_host(text)?;
    Ok(HostPort { host: host.to_owned(), port: parse_port(port)? })
}

/// Host and what follows its colon; an IPv6 address stands in brackets.
fn split_host(text: &str) -> Result<(&str, &str), String> {
    let split = match text.strip_prefix('[') {
        Some(inner) => inner.split_once("]:"),
        None => text.split_once(':'),
    };
    match split {
        Some((host, rest)) if !host.is_empty() => Ok((host, rest)),
        _ => Err(format!("{text:?}: {FORM}")),
    }
}

/// Reads `host:port` or `[v6]:port`, as a peer's initial message and addresses on the command line have it.
pub fn parse_host_port(text: &str) -> Result<HostPort, String> {
    let (host, port) = split_host(text.trim())?;
    Ok(HostPort { host: host.to_owned(), port: parse_port(port)? })
}
