//! Upstream's trace mask (`ZooTrace.textTraceLevel`): one number for the process. It is kept so that what was set can
//! be read back; nothing here is traced by it.

use std::sync::atomic::{AtomicI64, Ordering};

/// Upstream's initial value: client requests, sessions, server packets and warnings.
const INITIAL: i64 = 306;

static MASK: AtomicI64 = AtomicI64::new(INITIAL);

/// The present mask.
pub(super) fn get() -> i64 {
    MASK.load(Ordering::Relaxed)
}

/// Sets the mask.
pub(super) fn set(mask: i64) {
    MASK.store(mask, Ordering::Relaxed);
}
