//! Expiry, owners and ids of sessions.

use zk_core::session::{
    LearnerSessions, SessionIds, SessionTracker, decode_ping, decode_revalidate, decode_revalidate_reply,
    encode_ping, encode_revalidate, encode_revalidate_reply,
};
use zk_core::time::{Instant, Now};
use zk_jute::{ErrorCode, ServerId, SessionId};

const TICK: u64 = 2000;
const WALL: i64 = 1_700_000_000_000;

fn at(ms: u64) -> Now {
    Now { mono: Instant(0).plus_ms(ms), wall_ms: WALL }
}

fn tracker() -> SessionTracker {
    SessionTracker::new(ServerId(3), TICK, at(0))
}

#[test]
fn ids_carry_the_server_and_the_time_and_count_up() {
    let mut ids = SessionIds::new(ServerId(3), WALL);
    let first = ids.next(|_| false);
    assert_eq!(first.0 >> 56, 3);
    assert_eq!((first.0 >> 16) & 0xff_ffff_ffff, WALL & 0xff_ffff_ffff);
    assert_eq!(first.0 & 0xffff, 0);
    assert_eq!(ids.next(|_| false).0, first.0 + 1);
    assert_eq!(ids.next(|id| id.0 == first.0 + 2).0, first.0 + 3, "a session that is open keeps its id");
}

#[test]
fn no_session_is_called_zero_or_like_a_container() {
    let mut ids = SessionIds::new(ServerId(0), 0);
    assert_eq!(ids.next(|_| false), SessionId(1));
    let mut ids = SessionIds::new(ServerId(128), 0);
    assert_eq!(ids.next(|_| false), SessionId(i64::MIN + 1));
}

#[test]
fn a_session_expires_at_the_end_of_the_tick_after_its_timeout() {
    let mut tracker = tracker();
    let session = tracker.create(5000, at(100));
    assert_eq!(tracker.next_deadline(), Some(at(6000).mono));
    assert_eq!(tracker.expired(at(5999)), []);
    assert_eq!(tracker.expired(at(6000)), [session]);
    assert_eq!(tracker.expired(at(60_000)), [], "it expires once");
    assert_eq!(tracker.next_deadline(), None);
}

#[test]
fn a_touched_session_lives_on() {
    let mut tracker = tracker();
    let session = tracker.create(4000, at(0));
    for ms in (0..100_000).step_by(3000) {
        assert_eq!(tracker.expired(at(ms)), []);
        assert!(tracker.touch(session, 4000, at(ms)));
    }
    assert_eq!(tracker.expired(at(110_000)), [session]);
    assert!(!tracker.touch(session, 4000, at(110_000)), "too late: it is being closed");
    tracker.remove(session);
    assert!(tracker.is_empty());
    assert!(!tracker.touch(session, 4000, at(110_000)));
}

#[test]
fn sessions_of_the_tree_get_a_full_timeout_from_a_new_leader() {
    let mut tracker = tracker();
    for id in 1..=3 {
        tracker.add(SessionId(id), 10_000, at(50_000));
    }
    assert_eq!(tracker.expired(at(59_999)), []);
    assert_eq!(tracker.expired(at(62_000)), [SessionId(1), SessionId(2), SessionId(3)]);
}

#[test]
fn expiry_comes_in_bounded_bursts() {
    let mut tracker = tracker();
    for id in 1..=3000 {
        tracker.add(SessionId(id), 4000, at(0));
    }
    let now = at(10_000);
    let mut all = Vec::new();
    for expected in [1024, 1024, 952, 0] {
        let burst = tracker.expired(now);
        assert_eq!(burst.len(), expected);
        assert_eq!(
            tracker.next_deadline().is_some_and(|deadline| deadline <= now.mono),
            all.len() + expected < 3000
        );
        all.extend(burst);
    }
    assert!(all.is_sorted());
}

#[test]
fn a_closing_session_neither_expires_nor_writes() {
    let mut tracker = tracker();
    let session = tracker.create(4000, at(0));
    tracker.set_closing(session);
    assert_eq!(tracker.check(session, ServerId(3)), Err(ErrorCode::SessionExpired));
    assert_eq!(tracker.set_owner(session, ServerId(3)), Err(ErrorCode::SessionExpired));
    assert_eq!(tracker.expired(at(100_000)), []);
    assert!(tracker.sessions()[0].closing);
}

#[test]
fn the_owner_is_whoever_asks_first_until_the_client_moves() {
    let mut tracker = tracker();
    let session = tracker.create(4000, at(0));
    assert_eq!(tracker.check(session, ServerId(1)), Ok(()));
    assert_eq!(tracker.check(session, ServerId(2)), Err(ErrorCode::SessionMoved));
    assert_eq!(tracker.set_owner(session, ServerId(2)), Ok(()));
    assert_eq!(tracker.check(session, ServerId(2)), Ok(()));
    assert_eq!(tracker.check(session, ServerId(1)), Err(ErrorCode::SessionMoved));
    assert_eq!(tracker.check(SessionId(99), ServerId(1)), Err(ErrorCode::SessionExpired));
}

#[test]
fn a_learner_hands_over_what_it_heard_since_the_last_ping() {
    let mut learner = LearnerSessions::new(ServerId(2), WALL);
    assert_eq!(learner.next_id(|_| false).0 >> 56, 2);
    learner.touch(SessionId(5), 4000);
    learner.touch(SessionId(4), 6000);
    learner.touch(SessionId(5), 4000);
    learner.touch(SessionId(6), 4000);
    learner.remove(SessionId(6));
    let touched = learner.drain();
    assert_eq!(touched, [(SessionId(4), 6000), (SessionId(5), 4000)]);
    assert_eq!(learner.drain(), []);
    let data = encode_ping(&touched);
    assert_eq!(data.len(), 24);
    assert_eq!(decode_ping(Some(&data)), Ok(touched));
    assert_eq!(decode_ping(None), Ok(Vec::new()));
    assert!(decode_ping(Some(&data.slice(..23))).is_err());
}

#[test]
fn revalidation_has_upstreams_layout() {
    let ask = encode_revalidate(SessionId(0x0102), 4000);
    assert_eq!(&ask[..], [0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0x0f, 0xa0]);
    assert_eq!(decode_revalidate(&ask), Ok((SessionId(0x0102), 4000)));
    let answer = encode_revalidate_reply(SessionId(0x0102), true);
    assert_eq!(&answer[..], [0, 0, 0, 0, 0, 0, 1, 2, 1]);
    assert_eq!(decode_revalidate_reply(&answer), Ok((SessionId(0x0102), true)));
}
