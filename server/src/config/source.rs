//! The properties of all sources under their final names, and typed reading of them that never stops at the first
//! fault: every bad value of a file is reported in one run.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use super::keys::{self, Treatment};
use super::properties::{Origin, Property};

/// One fault or warning: where, which key, and what is allowed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    pub origin: Origin,
    pub message: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.message)
    }
}

/// All properties, the last writer of a key winning, and what was found wrong so far.
#[derive(Debug)]
pub struct Settings {
    values: BTreeMap<String, Property>,
    /// What a missing key is blamed on.
    main: Origin,
    pub errors: Vec<Diagnostic>,
    pub warnings: Vec<Diagnostic>,
}

impl Settings {
    /// Takes properties in rising precedence; `main` names the configuration file.
    pub fn new(main: Origin, properties: Vec<Property>) -> Self {
        let mut settings = Self { values: BTreeMap::new(), main, errors: Vec::new(), warnings: Vec::new() };
        for mut property in properties {
            property.key = canonical(&property.key);
            settings.insert(property);
        }
        settings.judge_keys();
        settings
    }

    fn insert(&mut self, property: Property) {
        if let Some(earlier) = self.values.get(&property.key)
            && earlier.value != property.value
        {
            let text = format!(
                "{} is also set at {} (to {:?}); this one wins",
                property.key, earlier.origin, earlier.value
            );
            self.warn(property.origin.clone(), text);
        }
        self.values.insert(property.key.clone(), property);
    }

    fn judge_keys(&mut self) {
        let all: Vec<Property> = self.values.values().cloned().collect();
        let tls = self.asks_for_tls();
        for Property { key, value, origin } in all {
            match keys::treatment(&key) {
                None => self.warn(origin, format!("unknown key {key}: it has no effect")),
                Some(Treatment::NotYet { default }) if !value.eq_ignore_ascii_case(default) => {
                    self.warn(origin, format!("{key}={value} is not implemented yet: it has no effect"));
                }
                Some(Treatment::Protection { .. }) if is_builtin_provider(&key, &value) => {}
                Some(Treatment::Protection { harmless }) if !value.eq_ignore_ascii_case(harmless) => {
                    let text = format!(
                        "{key}={value} asks for protection this server does not implement yet; remove it to run without"
                    );
                    self.error(origin, text);
                }
                Some(Treatment::TlsDetail) if !tls => {
                    self.warn(
                        origin,
                        format!("{key} has no effect: neither sslQuorum nor secureClientPort is set"),
                    );
                }
                Some(
                    Treatment::Used
                    | Treatment::NotNeeded
                    | Treatment::TlsDetail
                    | Treatment::NotYet { .. }
                    | Treatment::Protection { .. },
                ) => {}
            }
        }
    }

    fn asks_for_tls(&self) -> bool {
        let set =
            |key: &str| self.raw(key).is_some_and(|property| !property.value.eq_ignore_ascii_case("false"));
        set("sslQuorum") || set("secureClientPort")
    }

    /// Adds an error. Some keys are read in two places, but nothing is said twice.
    pub fn error(&mut self, origin: Origin, message: String) {
        add(&mut self.errors, Diagnostic { origin, message });
    }

    /// Adds a warning, as [`Self::error`].
    pub fn warn(&mut self, origin: Origin, message: String) {
        add(&mut self.warnings, Diagnostic { origin, message });
    }

    /// The property as written, unless it is absent or empty.
    pub fn raw(&self, key: &str) -> Option<&Property> {
        self.values.get(key).filter(|property| !property.value.is_empty())
    }

    /// Properties whose key starts with `prefix`, with the rest of their key.
    pub fn family(&self, prefix: &str) -> Vec<(String, Property)> {
        let with =
            self.values.values().filter_map(|p| Some((p.key.strip_prefix(prefix)?.to_owned(), p.clone())));
        with.collect()
    }

    /// Every property, for `/commands/system_properties`.
    pub fn all(&self) -> BTreeMap<String, String> {
        self.values.values().map(|p| (p.key.clone(), p.value.clone())).collect()
    }

    /// Where `key` stands, or the file as a whole.
    pub fn place(&self, key: &str) -> Origin {
        self.values.get(key).map_or_else(|| self.main.clone(), |property| property.origin.clone())
    }

    /// Text, if set.
    pub fn text(&self, key: &str) -> Option<String> {
        self.raw(key).map(|property| property.value.clone())
    }

    /// A whole number in `allowed`; `default` if absent, or bad (then with an error).
    pub fn number(&mut self, key: &str, default: i64, allowed: RangeInclusive<i64>) -> i64 {
        self.number_if_set(key, allowed).unwrap_or(default)
    }

    /// As [`Self::number`], but absent stays absent.
    pub fn number_if_set(&mut self, key: &str, allowed: RangeInclusive<i64>) -> Option<i64> {
        let property = self.raw(key)?.clone();
        match integer(&property.value) {
            Some(value) if allowed.contains(&value) => Some(value),
            _ => {
                let range = format!("a whole number from {} to {}", allowed.start(), allowed.end());
                self.error(property.origin, format!("{key}: {:?} is not allowed: {range}", property.value));
                None
            }
        }
    }

    /// As [`Self::number`], for what must be there.
    pub fn required(&mut self, key: &str, allowed: RangeInclusive<i64>) -> i64 {
        let lowest = *allowed.start();
        if self.raw(key).is_none() {
            self.error(self.main.clone(), format!("{key} is not set: a whole number from {lowest}"));
        }
        self.number(key, lowest, allowed)
    }

    /// `true` or `false`, in any case.
    pub fn flag(&mut self, key: &str, default: bool) -> bool {
        self.choice(key, default, &[("true", true), ("false", false)])
    }

    /// `yes` or `no`, for the two keys that upstream reads so; `true` and `false` are understood too.
    pub fn yes(&mut self, key: &str, default: bool) -> bool {
        self.choice(key, default, &[("yes", true), ("no", false), ("true", true), ("false", false)])
    }

    /// One of a few words, in any case.
    pub fn choice<T: Copy>(&mut self, key: &str, default: T, words: &[(&str, T)]) -> T {
        let Some(property) = self.raw(key).cloned() else { return default };
        match words.iter().find(|(word, _)| property.value.eq_ignore_ascii_case(word)) {
            Some((_, value)) => *value,
            None => {
                let allowed: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                let text = format!("{key}: {:?} is not allowed: {}", property.value, allowed.join(" or "));
                self.error(property.origin, text);
                default
            }
        }
    }
}

fn add(all: &mut Vec<Diagnostic>, one: Diagnostic) {
    if !all.contains(&one) {
        all.push(one);
    }
}

/// A whole number as Java's `Integer.decode` reads it, by which upstream reads system properties: decimal, or
/// hexadecimal behind `0x` or `#`. Octal is not taken: the keys of the file itself are decimal upstream.
fn integer(text: &str) -> Option<i64> {
    let hex = ["0x", "0X", "#"].iter().find_map(|prefix| text.strip_prefix(prefix));
    match hex {
        Some(digits) if digits.starts_with(|c: char| c.is_ascii_hexdigit()) => {
            i64::from_str_radix(digits, 16).ok()
        }
        Some(_) => None,
        None => text.parse().ok(),
    }
}

/// Keys of `-D` carry the prefix that upstream gives to keys of the file.
fn canonical(key: &str) -> String {
    key.strip_prefix("zookeeper.").unwrap_or(key).to_owned()
}

/// `authProvider.N` may name what is built in anyway.
fn is_builtin_provider(key: &str, class: &str) -> bool {
    let builtin = ["DigestAuthenticationProvider", "IPAuthenticationProvider"];
    key.starts_with("authProvider.") && builtin.iter().any(|name| class.ends_with(name))
}
