//! Kubernetes quantities (`10Gi`, `1.5T`), as far as storage sizes need them.

use std::str::FromStr;

/// An amount in bytes, exact to the byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(u128);

/// Pattern the API server checks sizes against; [`Quantity::from_str`] accepts the same strings.
pub(crate) const PATTERN: &str = r"^[0-9]{1,15}(\.[0-9]{1,3})?(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?$";

const SUFFIXES: [(&str, u128); 11] = [
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("Pi", 1 << 50),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("P", 1_000_000_000_000_000),
    ("", 1),
];

impl Quantity {
    /// The amount in bytes.
    #[must_use]
    pub fn bytes(self) -> u128 {
        self.0
    }
}

impl FromStr for Quantity {
    type Err = &'static str;

    /// Parses digits, up to three decimals and one suffix.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "must be a size such as 10Gi";
        let (number, unit) = SUFFIXES
            .iter()
            .find_map(|(suffix, unit)| Some((text.strip_suffix(suffix)?, *unit)))
            .ok_or(WRONG)?;
        let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
        let digits = |part: &str, max: usize| {
            (1..=max).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit())
        };
        if !digits(whole, 15) || !digits(decimals, 3) {
            return Err(WRONG);
        }
        // 15 digits times 2^50 is far below 2^127: no overflow.
        let whole: u128 = whole.parse().map_err(|_| WRONG)?;
        let thousandths: u128 = format!("{decimals:0<3}").parse().map_err(|_| WRONG)?;
        Ok(Self(whole * unit + (thousandths * unit).div_ceil(1000)))
    }
}
