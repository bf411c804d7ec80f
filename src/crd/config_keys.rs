//! The `zoo.cfg` keys a user may set through `spec.config`, and what values they take.
//!
//! An allow list: membership, ports, directories and everything that guards the data (`forceSync`,
//! `db.autocreate`, `standaloneEnabled`, ...) belong to the operator, and a key nobody knows is a typing error.

/// What a configuration value looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// A whole number in this range, both ends included.
    Number { min: u32, max: u32 },
    /// `true` or `false`.
    Bool,
    /// `yes` or `no`; upstream spells `leaderServes` so.
    YesNo,
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
/// Beyond this the server cuts it.
const JUTE_MAX: u32 = 536_870_911;

/// Every key `spec.config` accepts, sorted as they are listed to users.
pub const CONFIG_KEYS: &[ConfigKey] = &[
    ConfigKey { name: "4lw.commands.whitelist", kind: ValueKind::Words },
    number("autopurge.purgeInterval", 0, 8760),
    number("autopurge.snapRetainCount", 3, 10_000),
    number("clientPortListenBacklog", 1, 65_535),
    flag("closeSessionTxn.enabled"),
    number("cnxTimeout", 1, 600_000),
    number("commitLogCount", 1, 10_000_000),
    number("connectToLearnerMasterLimit", 1, 10_000),
    flag("digest.enabled"),
    flag("enforceQuota"),
    flag("extendedTypesEnabled"),
    number("fastleader.maxNotificationInterval", 1, 3_600_000),
    number("fastleader.minNotificationInterval", 1, 3_600_000),
    number("fsync.warningthresholdms", 1, BILLION),
    number("globalOutstandingLimit", 1, 10_000_000),
    number("initLimit", 1, 10_000),
    number("jute.maxbuffer", 1024, JUTE_MAX),
    ConfigKey { name: "leaderServes", kind: ValueKind::YesNo },
    flag("localSessionsEnabled"),
    flag("localSessionsUpgradingEnabled"),
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
                let plain = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
                plain && value.parse::<u32>().is_ok_and(|n| (min..=max).contains(&n))
            }
            Self::Bool => matches!(value, "true" | "false"),
            Self::YesNo => matches!(value, "yes" | "no"),
            Self::Words => value == "*" || value.split(',').all(|word| is_word(word.trim())),
        }
    }
}

impl std::fmt::Display for ValueKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number { min, max } => write!(f, "a whole number from {min} to {max}"),
            Self::Bool => write!(f, "true or false"),
            Self::YesNo => write!(f, "yes or no"),
            Self::Words => write!(f, "a comma-separated list of commands, or *"),
        }
    }
}

fn is_word(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric())
}
