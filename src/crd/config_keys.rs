//! The `zoo.cfg` keys a user may set through `spec.config`, and what values they take.
//!
//! An allow list: membership, ports, directories and everything that guards the data (`forceSync`,
//! `db.autocreate`, `standaloneEnabled`, ...) belong to the operator, a key nobody knows is a typing error, and a key
//! zk-server gives no effect would be a promise nobody keeps.
//!
//! This table is the only one: the CEL rules are generated from it, the offline rules read it, and
//! `tests/crd_config.rs` takes each key to its bounds and beyond, in both and in zk-server's own parser.

use std::collections::BTreeMap;

/// What a configuration value looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// A whole number in this range, both ends included.
    Number { min: u32, max: u32 },
    /// `true` or `false`.
    Bool,
    /// A comma-separated list of words, or `*`.
    Words,
}

/// One allowed key.
#[derive(Clone, Copy, Debug)]
pub struct ConfigKey {
    /// The key as `zoo.cfg` spells it.
    pub name: &'static str,
    /// What its value must look like.
    pub kind: ValueKind,
}

const fn number(name: &'static str, min: u32, max: u32) -> ConfigKey {
    ConfigKey { name, kind: ValueKind::Number { min, max } }
}

const fn flag(name: &'static str) -> ConfigKey {
    ConfigKey { name, kind: ValueKind::Bool }
}

const BILLION: u32 = 999_999_999;
/// Pattern of a list of words, or `*`; [`ValueKind::accepts`] takes the same.
const WORDS: &str = r"^([*]|[ ]*[0-9A-Za-z]+[ ]*(,[ ]*[0-9A-Za-z]+[ ]*)*)$";
/// Ticks of the default `minSessionTimeout`.
const MIN_TICKS: u32 = 2;
/// Ticks of the default `maxSessionTimeout`.
const MAX_TICKS: u32 = 20;
/// `tickTime` in milliseconds where `spec.config` has none.
const TICK_MS: u32 = 2000;
/// What is wrong with session timeouts that contradict each other.
const TIMEOUTS_MESSAGE: &str = "minSessionTimeout (by default 2 ticks) must not be larger than maxSessionTimeout \
                                (by default 20 ticks)";

/// Every key `spec.config` accepts, sorted as they are listed to users.
pub const CONFIG_KEYS: &[ConfigKey] = &[
    ConfigKey { name: "4lw.commands.whitelist", kind: ValueKind::Words },
    number("autopurge.purgeInterval", 0, 8760),
    number("autopurge.snapRetainCount", 3, 10_000),
    number("clientPortListenBacklog", 1, 65_535),
    flag("closeSessionTxn.enabled"),
    number("cnxTimeout", 1, 600_000),
    // Below 500 the server uses 500.
    number("commitLogCount", 500, 10_000_000),
    number("connectToLearnerMasterLimit", 1, 10_000),
    flag("digest.enabled"),
    flag("enforceQuota"),
    flag("extendedTypesEnabled"),
    number("fastleader.maxNotificationInterval", 1, 3_600_000),
    number("fastleader.minNotificationInterval", 1, 3_600_000),
    number("fsync.warningthresholdms", 1, BILLION),
    number("globalOutstandingLimit", 1, 10_000_000),
    number("initLimit", 1, 10_000),
    // Four times the size of a packet must fit into an i32.
    number("jute.maxbuffer", 1024, 536_870_911),
    number("maxClientCnxns", 0, 10_000_000),
    number("maxCnxns", 0, 10_000_000),
    number("maxSessionTimeout", 1, BILLION),
    number("minSessionTimeout", 1, BILLION),
    number("preAllocSize", 64, 1_048_576),
    number("snapCount", 2, BILLION),
    number("snapSizeLimitInKb", 0, BILLION),
    number("syncLimit", 1, 10_000),
    flag("tcpKeepAlive"),
    number("tickTime", 50, 600_000),
    number("txnLogSizeLimitInKb", 0, BILLION),
];

impl ConfigKey {
    /// The key called `name`, if it may be set.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        CONFIG_KEYS.iter().find(|key| key.name == name)
    }
}

impl ValueKind {
    /// Whether `value` is one this kind takes.
    #[must_use]
    pub fn accepts(self, value: &str) -> bool {
        match self {
            Self::Number { min, max } => {
                // Nine digits hold every bound, and keep the CEL rule's `int()` from failing.
                let plain = (1..=9).contains(&value.len()) && value.bytes().all(|b| b.is_ascii_digit());
                plain && value.parse::<u32>().is_ok_and(|n| (min..=max).contains(&n))
            }
            Self::Bool => matches!(value, "true" | "false"),
            Self::Words => value == "*" || value.split(',').all(|word| is_word(word.trim_matches(' '))),
        }
    }

    /// A CEL expression for whether the string `value` is one this kind takes.
    fn rule(self, value: &str) -> String {
        match self {
            Self::Number { min, max } => {
                format!("{value}.matches('^[0-9]{{1,9}}$') && int({value}) >= {min} && int({value}) <= {max}")
            }
            Self::Bool => format!("{value} in ['true', 'false']"),
            Self::Words => format!("{value}.matches('{WORDS}')"),
        }
    }
}

/// The CEL rules of `spec.config`, each with the message of its refusal.
pub(super) fn rules(unknown: &str) -> Vec<(String, String)> {
    let names: Vec<String> = CONFIG_KEYS.iter().map(|key| format!("'{}'", key.name)).collect();
    let mut rules = vec![(format!("self.all(key, key in [{}])", names.join(", ")), unknown.to_owned())];
    rules.extend(CONFIG_KEYS.iter().map(|key| {
        let value = format!("self['{}']", key.name);
        let rule = format!("!('{}' in self) || ({})", key.name, key.kind.rule(&value));
        (rule, format!("{} must be {}", key.name, key.kind))
    }));
    let given = |key: &str, otherwise: &str| format!("('{key}' in self ? int(self['{key}']) : {otherwise})");
    let tick = given("tickTime", &TICK_MS.to_string());
    let min = given("minSessionTimeout", &format!("{MIN_TICKS} * {tick}"));
    let max = given("maxSessionTimeout", &format!("{MAX_TICKS} * {tick}"));
    rules.push((format!("{min} <= {max}"), TIMEOUTS_MESSAGE.to_owned()));
    rules
}

/// What is wrong with values that are right one by one, if anything.
pub(super) fn contradiction(config: &BTreeMap<String, String>) -> Option<&'static str> {
    // A value that is no number is told of by itself.
    let given = |key: &str, otherwise: u32| match config.get(key) {
        Some(value) => value.parse::<u32>().ok(),
        None => Some(otherwise),
    };
    let tick = given("tickTime", TICK_MS)?;
    let min = given("minSessionTimeout", tick.saturating_mul(MIN_TICKS))?;
    let max = given("maxSessionTimeout", tick.saturating_mul(MAX_TICKS))?;
    (min > max).then_some(TIMEOUTS_MESSAGE)
}

impl std::fmt::Display for ValueKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number { min, max } => write!(f, "a whole number from {min} to {max}"),
            Self::Bool => write!(f, "true or false"),
            Self::Words => write!(f, "a comma-separated list of commands, or *"),
        }
    }
}

fn is_word(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric())
}
