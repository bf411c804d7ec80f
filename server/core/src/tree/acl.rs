//! Who may do what (upstream `ZooKeeperServer.checkACL` and the matchers of the authentication providers).

use zk_jute::ErrorCode;
use zk_jute::consts::perms;
use zk_jute::records::{Acl, Id};

use super::ip::ip_matches;
use crate::config::Rules;

/// Checks that one of `ids` has one of the permission bits `perm`.
///
/// # Errors
/// [`ErrorCode::NoAuth`].
pub fn check_acl(acl: &[Acl], perm: i32, ids: &[Id], rules: &Rules) -> Result<(), ErrorCode> {
    if rules.skip_acl || permits(acl, perm, ids) { Ok(()) } else { Err(ErrorCode::NoAuth) }
}

/// True if `acl` gives one of the bits of `perm` to one of `ids`. An empty ACL permits everything, and so does the
/// identity `super`.
pub fn permits(acl: &[Acl], perm: i32, ids: &[Id]) -> bool {
    acl.is_empty()
        || ids.iter().any(|id| &*id.scheme == "super")
        || acl.iter().any(|entry| entry.perms & perm != 0 && is_meant(&entry.id, ids))
}

fn is_meant(wanted: &Id, ids: &[Id]) -> bool {
    if &*wanted.scheme == "world" && &*wanted.id == "anyone" {
        return true;
    }
    ids.iter().any(|id| id.scheme == wanted.scheme && matches(&wanted.scheme, &id.id, &wanted.id))
}

/// The rule of one scheme. `world` matches nothing but `anyone`, and `auth` never stays in a stored ACL.
fn matches(scheme: &str, id: &str, wanted: &str) -> bool {
    match scheme {
        "ip" => ip_matches(id, wanted),
        "sasl" => id == "super" || id == wanted,
        "world" | "auth" => false,
        _ => id == wanted,
    }
}

/// What `getACL` shows to a caller without ADMIN: the password hashes of `digest` entries become `x`.
pub fn masked_acl(acl: &[Acl], ids: &[Id], rules: &Rules) -> Vec<Acl> {
    if check_acl(acl, perms::ADMIN, ids, rules).is_ok() {
        return acl.to_vec();
    }
    acl.iter().map(masked).collect()
}

fn masked(entry: &Acl) -> Acl {
    match entry.id.id.split_once(':') {
        Some((user, _)) if &*entry.id.scheme == "digest" => Acl {
            perms: entry.perms,
            id: Id { scheme: entry.id.scheme.clone(), id: format!("{user}:x").into() },
        },
        _ => entry.clone(),
    }
}
