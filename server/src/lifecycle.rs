//! The end of the process: who is told that the peer has halted, and who must still be waited for.

use std::sync::Arc;

use tokio::sync::watch;
use zk_core::effect::HaltReason;

/// Shared by everything that must know of the end. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Lifecycle {
    halt: watch::Receiver<Option<HaltReason>>,
    busy: Arc<watch::Sender<usize>>,
}

/// Keeps the process alive for a moment after the halt; dropped when done.
#[derive(Debug)]
pub struct Busy(Arc<watch::Sender<usize>>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Lifecycle {
    /// A lifecycle and what announces its end.
    pub fn new() -> (Self, watch::Sender<Option<HaltReason>>) {
        let (sender, halt) = watch::channel(None);
        (Self { halt, busy: Arc::new(watch::Sender::new(0)) }, sender)
    }

    /// Waits until the peer has halted. `None`: its thread ended without a reason, which is a bug.
    pub async fn halted(&self) -> Option<HaltReason> {
        let mut halt = self.halt.clone();
        halt.wait_for(Option::is_some).await.ok()?.clone()
    }

    /// Somebody has a last word to say.
    pub fn busy(&self) -> Busy {
        self.busy.send_modify(|count| *count += 1);
        Busy(self.busy.clone())
    }

    /// Waits until nobody has.
    pub async fn idle(&self) {
        // The sender is held by `self`, so the wait cannot fail.
        drop(self.busy.subscribe().wait_for(|count| *count == 0).await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fault: a peer whose thread was gone without a word counted as corrupt data, for which others wipe a member.
    #[tokio::test]
    async fn a_peer_that_ends_without_a_reason_has_none() {
        let (lifecycle, announce) = Lifecycle::new();
        drop(announce);
        assert_eq!(lifecycle.halted().await, None);
        let (lifecycle, announce) = Lifecycle::new();
        announce.send_replace(Some(HaltReason::DiskFull("why".to_owned())));
        assert_eq!(lifecycle.halted().await, Some(HaltReason::DiskFull("why".to_owned())));
    }
}
