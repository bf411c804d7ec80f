//! Authentication schemes (upstream `ProviderRegistry`, `DigestAuthenticationProvider`, `IPAuthenticationProvider`) and
//! what a write may say about ACLs (upstream `PrepRequestProcessor.fixupACL`).
//!
//! Registered are `digest` and `ip`, as upstream does without further configuration; `world` needs no provider and
//! `super` cannot be claimed, only granted. Everything else is an unknown scheme: no login, no valid ACL.

use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest as _, Sha1};
use zk_jute::ErrorCode;
use zk_jute::records::{Acl, Id};

use crate::tree::is_valid_ip;

/// Takes an `auth` packet's claim and returns the identities it proves, in upstream's order.
///
/// # Errors
/// [`ErrorCode::AuthFailed`] for a scheme that is not registered.
pub fn authenticate(
    scheme: &str,
    auth: &[u8],
    peer: IpAddr,
    super_digest: Option<&str>,
) -> Result<Vec<Id>, ErrorCode> {
    match scheme {
        "digest" => {
            let digest = digest_id(&String::from_utf8_lossy(auth));
            let granted = super_digest.is_some_and(|expected| expected == digest).then(|| id("super", ""));
            Ok(granted.into_iter().chain([id("digest", &digest)]).collect())
        }
        "ip" => Ok(vec![ip_id(peer)]),
        _ => Err(ErrorCode::AuthFailed),
    }
}

/// The identity every connection has from the start.
pub fn ip_id(peer: IpAddr) -> Id {
    id("ip", &host_address(peer))
}

/// `user:base64(SHA1(user:password))` of `user:password` (upstream `generateDigest`).
pub fn digest_id(user_password: &str) -> String {
    let user = user_password.split(':').next().unwrap_or_default();
    format!("{user}:{}", STANDARD.encode(Sha1::digest(user_password.as_bytes())))
}

/// An address as Java's `getHostAddress` writes it: IPv6 in eight groups, nothing left out.
pub fn host_address(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => v6.segments().map(|segment| format!("{segment:x}")).join(":"),
    }
}

/// The ACL that a create or `setACL` stores: duplicates removed, `auth` replaced by the caller's authenticated
/// identities.
///
/// # Errors
/// [`ErrorCode::InvalidAcl`] if the list is null or empty, an entry's scheme or id is not valid, or `auth` is used without
/// any authenticated identity.
pub fn fixup_acl(auth: &[Id], acl: Option<&[Acl]>) -> Result<Vec<Acl>, ErrorCode> {
    let mut unique: Vec<&Acl> = Vec::new();
    for entry in acl.unwrap_or_default() {
        if !unique.contains(&entry) {
            unique.push(entry);
        }
    }
    if unique.is_empty() {
        return Err(ErrorCode::InvalidAcl);
    }
    let mut fixed = Vec::with_capacity(unique.len());
    for entry in unique {
        match &*entry.id.scheme {
            "auth" => expand_auth(entry.perms, auth, &mut fixed)?,
            _ if is_valid(&entry.id) => fixed.push(entry.clone()),
            _ => return Err(ErrorCode::InvalidAcl),
        }
    }
    Ok(fixed)
}

fn expand_auth(perms: i32, auth: &[Id], fixed: &mut Vec<Acl>) -> Result<(), ErrorCode> {
    let before = fixed.len();
    // An address is an identity, but not an authenticated one.
    fixed.extend(auth.iter().filter(|id| &*id.scheme == "digest").map(|id| Acl { perms, id: id.clone() }));
    if fixed.len() == before { Err(ErrorCode::InvalidAcl) } else { Ok(()) }
}

/// May this identity stand in an ACL?
fn is_valid(id: &Id) -> bool {
    match &*id.scheme {
        "world" => &*id.id == "anyone",
        "digest" => {
            // Java's `split` drops empty parts at the end.
            id.id.trim_end_matches(':').split(':').count() == 2
        }
        "ip" => is_valid_ip(&id.id),
        _ => false,
    }
}

/// Builds an identity.
pub fn id(scheme: &str, value: &str) -> Id {
    Id { scheme: Arc::from(scheme), id: Arc::from(value) }
}
