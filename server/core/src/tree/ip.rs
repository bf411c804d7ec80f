//! Matching of `ip` ACL entries (upstream `IPAuthenticationProvider`): an address with an optional number of leading
//! bits, IPv4 or (since 3.9.4) IPv6.

/// Bytes of an address; IPv4 uses the first four.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Address {
    bytes: [u8; 16],
    len: usize,
}

/// True if `expression` (`address` or `address/bits`) can stand in an ACL.
pub fn is_valid_ip(expression: &str) -> bool {
    parse_expression(expression).is_some()
}

/// True if the client at `address` is covered by `expression`.
pub fn ip_matches(address: &str, expression: &str) -> bool {
    let (Some((wanted, bits)), Some(actual)) = (parse_expression(expression), parse(address)) else {
        return false;
    };
    wanted.len == actual.len && masked(wanted, bits) == masked(actual, bits)
}

fn parse_expression(expression: &str) -> Option<(Address, usize)> {
    let (address, bits) = match expression.split_once('/') {
        Some((address, bits)) => (parse(address)?, Some(bits.parse().ok()?)),
        None => (parse(expression)?, None),
    };
    let all = address.len * 8;
    let bits = bits.unwrap_or(all);
    (bits <= all).then_some((address, bits))
}

fn masked(mut address: Address, bits: usize) -> Address {
    for (at, byte) in address.bytes.iter_mut().enumerate() {
        let keep = bits.saturating_sub(at * 8).min(8);
        *byte &= !(0xff_u8.checked_shr(keep as u32).unwrap_or(0));
    }
    address
}

fn parse(text: &str) -> Option<Address> {
    if text.contains(':') { parse_v6(text) } else { parse_v4(text) }
}

fn parse_v4(text: &str) -> Option<Address> {
    let mut bytes = [0; 16];
    let mut len = 0;
    for part in text.split('.') {
        *bytes.get_mut(len).filter(|_| len < 4)? = part.parse().ok()?;
        len += 1;
    }
    (len == 4).then_some(Address { bytes, len })
}

fn parse_v6(text: &str) -> Option<Address> {
    let mut bytes = [0; 16];
    match text.split_once("::") {
        None => {
            let segments = parse_segments(text)?;
            (segments.len() == 8).then(|| fill(&mut bytes, 0, &segments))?;
        }
        Some((head, tail)) => {
            let (head, tail) = (parse_segments(head)?, parse_segments(tail)?);
            (head.len() + tail.len() < 8).then_some(())?;
            fill(&mut bytes, 0, &head);
            fill(&mut bytes, 16 - 2 * tail.len(), &tail);
        }
    }
    Some(Address { bytes, len: 16 })
}

fn fill(bytes: &mut [u8; 16], from: usize, segments: &[u16]) {
    for (place, segment) in bytes[from..].chunks_exact_mut(2).zip(segments) {
        place.copy_from_slice(&segment.to_be_bytes());
    }
}

/// Bound: stops at the ninth segment.
fn parse_segments(text: &str) -> Option<Vec<u16>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let segments: Option<Vec<u16>> = text.split(':').take(9).map(parse_segment).collect();
    segments.filter(|segments| segments.len() <= 8)
}

fn parse_segment(text: &str) -> Option<u16> {
    let hex = !text.is_empty() && text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    hex.then(|| u16::from_str_radix(text, 16).ok()).flatten()
}
