//! What a node's `ephemeralOwner` means (upstream `EphemeralType`): nothing, a session, a container or a time to live.
//!
//! Upstream asks `extendedTypesEnabled` before it recognizes TTL nodes. This server always recognizes them: a member
//! with the switch off must still hold the same tree as its leader, and no session id has the TTL pattern in practice
//! (server id 255 and a clock within 4.7 hours of a multiple of 34 years).

use zk_jute::SessionId;

/// `ephemeralOwner` of a container node.
pub const CONTAINER_OWNER: i64 = i64::MIN;
/// Longest time to live, milliseconds (about 34 years).
pub const MAX_TTL_MS: i64 = 0x00ff_ffff_ffff;
/// Highest server id when TTL nodes are enabled: 255 would make its sessions look like TTL nodes.
pub const MAX_EXTENDED_SERVER_ID: i64 = 0xfe;

const EXTENDED_MASK: i64 = 0xff << 56;
const RESERVED_MASK: i64 = 0x00ff_ff00_0000_0000;

/// The kinds of nodes by owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EphemeralType {
    /// A persistent node.
    Void,
    /// Belongs to a session and goes with it.
    Session(SessionId),
    /// Goes some time after its last child.
    Container,
    /// Goes when neither it nor its children changed for this many milliseconds.
    Ttl(i64),
}

impl EphemeralType {
    /// Decodes `ephemeralOwner` as stored.
    pub const fn of(owner: i64) -> Self {
        if owner == 0 {
            Self::Void
        } else if owner == CONTAINER_OWNER {
            Self::Container
        } else if owner & (EXTENDED_MASK | RESERVED_MASK) == EXTENDED_MASK {
            Self::Ttl(owner & MAX_TTL_MS)
        } else {
            Self::Session(SessionId(owner))
        }
    }

    /// `ephemeralOwner` of a node that lives `ttl_ms`, or `None` outside 1..=[`MAX_TTL_MS`].
    pub const fn ttl_owner(ttl_ms: i64) -> Option<i64> {
        if ttl_ms >= 1 && ttl_ms <= MAX_TTL_MS { Some(EXTENDED_MASK | ttl_ms) } else { None }
    }

    /// What clients see in `Stat.ephemeralOwner`: the session, 0 for every other kind.
    pub const fn client_owner(owner: i64) -> i64 {
        match Self::of(owner) {
            Self::Session(session) => session.0,
            Self::Void | Self::Container | Self::Ttl(_) => 0,
        }
    }
}
