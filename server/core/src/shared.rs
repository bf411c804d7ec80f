//! What client connections read without asking the core: the tree and the watches.
//!
//! The core's thread is the only writer of the tree. Lock order is tree, then watches, everywhere. A connection reads
//! and registers its watch under one read lock, so that no change can fall between the two.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::tree::DataTree;
use crate::watch::WatchManager;

/// Shared between the core and every client connection.
#[derive(Debug, Default)]
pub struct Shared {
    pub tree: RwLock<DataTree>,
    pub watches: Mutex<WatchManager>,
    serving: AtomicBool,
}

impl Shared {
    /// A handle to an empty database that does not serve yet.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// True while the role allows clients.
    pub fn is_serving(&self) -> bool {
        self.serving.load(Ordering::Acquire)
    }

    /// Only the core calls this.
    pub(crate) fn set_serving(&self, serving: bool) {
        self.serving.store(serving, Ordering::Release);
    }
}
