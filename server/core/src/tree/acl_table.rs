//! ACL lists, each kept once and counted (upstream `ReferenceCountedACLCache`): a node holds four bytes.
//!
//! The numbers are this member's own; images carry them with their lists, and loading maps the image's numbers to ours,
//! so no number can dangle or be given out twice (ZOOKEEPER-4689, ZOOKEEPER-4846).

use std::sync::{Arc, LazyLock};

use foldhash::fast::FixedState;
use imbl::GenericHashMap;
use imbl::shared_ptr::DefaultSharedPtr;
use zk_jute::consts::perms;
use zk_jute::records::{Acl, Id};

/// Number of an ACL list in [`AclTable`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct AclId(u32);

impl AclId {
    /// `world:anyone` with every permission. Never in the table.
    pub(super) const OPEN: Self = Self(u32::MAX);

    /// As images write it: -1 is the open ACL.
    pub(super) const fn to_image(self) -> i64 {
        if self.0 == Self::OPEN.0 { -1 } else { self.0 as i64 }
    }
}

static OPEN_ACL: LazyLock<Arc<[Acl]>> = LazyLock::new(|| world(perms::ALL).into());

/// One entry for `world:anyone`.
pub(super) fn world(perms: i32) -> Vec<Acl> {
    vec![Acl { perms, id: Id { scheme: "world".into(), id: "anyone".into() } }]
}

type Map<K, V> = GenericHashMap<K, V, FixedState, DefaultSharedPtr>;

#[derive(Clone, Debug)]
struct Entry {
    acl: Arc<[Acl]>,
    /// Nodes that use it.
    uses: u64,
}

/// The table. Cloned in O(1).
#[derive(Clone, Debug, Default)]
pub(super) struct AclTable {
    by_id: Map<AclId, Entry>,
    by_acl: Map<Arc<[Acl]>, AclId>,
    last: u32,
}

impl AclTable {
    /// The number of `acl` with one use more.
    pub(super) fn acquire(&mut self, acl: &[Acl]) -> AclId {
        if *acl == **OPEN_ACL {
            return AclId::OPEN;
        }
        if let Some(id) = self.by_acl.get(acl).copied() {
            self.entry(id).uses += 1;
            return id;
        }
        let id = self.next_id();
        let acl: Arc<[Acl]> = acl.into();
        self.by_acl.insert(acl.clone(), id);
        self.by_id.insert(id, Entry { acl, uses: 1 });
        id
    }

    /// One use more of a number already given out.
    pub(super) fn reuse(&mut self, id: AclId) {
        if id != AclId::OPEN {
            self.entry(id).uses += 1;
        }
    }

    /// One use less; the list goes with its last use.
    pub(super) fn release(&mut self, id: AclId) {
        if id == AclId::OPEN {
            return;
        }
        let entry = self.entry(id);
        assert!(entry.uses > 0, "ACL {id:?} released more often than acquired");
        entry.uses -= 1;
        if entry.uses == 0 {
            let acl = entry.acl.clone();
            self.by_acl.remove(&acl);
            self.by_id.remove(&id);
        }
    }

    /// The list of `id`.
    pub(super) fn get(&self, id: AclId) -> &Arc<[Acl]> {
        if id == AclId::OPEN {
            return &OPEN_ACL;
        }
        let Some(entry) = self.by_id.get(&id) else { panic!("ACL {id:?} is not in the table") };
        &entry.acl
    }

    /// Number of lists kept.
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Every list, by number.
    pub(super) fn to_image(&self) -> Vec<(i64, Vec<Acl>)> {
        let mut acls: Vec<_> =
            self.by_id.iter().map(|(id, entry)| (id.to_image(), entry.acl.to_vec())).collect();
        acls.sort_unstable_by_key(|(id, _)| *id);
        acls
    }

    fn entry(&mut self, id: AclId) -> &mut Entry {
        let Some(entry) = self.by_id.get_mut(&id) else { panic!("ACL {id:?} is not in the table") };
        entry
    }

    /// Numbers are reused only after 2^32 lists, and then only free ones.
    fn next_id(&mut self) -> AclId {
        loop {
            self.last = if self.last >= u32::MAX - 1 { 1 } else { self.last + 1 };
            if !self.by_id.contains_key(&AclId(self.last)) {
                return AclId(self.last);
            }
        }
    }
}
