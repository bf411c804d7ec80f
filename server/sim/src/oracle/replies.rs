//! LinearizableWrites, SessionOrder and reads that tell the truth.
//!
//! A successful or failed write is answered with the zxid of its own transaction, which was assigned after the request was made:
//! so writes are ordered in real time by zxid. A read answered at zxid z returns exactly the state after z, and the zxids that
//! one session sees never fall, over all members it talks to. A request without an answer is unknown: it may be in the history
//! or not, but never twice (checked by the model).

use std::collections::BTreeMap;

use zk_jute::request::{ReplyHeader, Request, Response};
use zk_jute::{ErrorCode, SessionId, Zxid};

use super::Violation;
use super::model::{Model, NodeState};

/// One answered request.
#[derive(Debug)]
pub struct Answer<'a> {
    pub client: usize,
    pub session: SessionId,
    pub request: &'a Request,
    pub header: ReplyHeader,
    pub response: Option<&'a Response>,
    /// End of the committed history when the request was made.
    pub floor: Zxid,
    /// The member that answers belongs to the latest epoch, and did so when the request was made: its leader is no
    /// deposed one that does not know it yet, which is the one case in which upstream's `sync` may lag behind.
    pub fresh: bool,
}

/// What each session has seen.
#[derive(Debug, Default)]
pub struct Replies {
    seen: BTreeMap<SessionId, Zxid>,
    /// Answers checked, for the run's summary.
    pub checked: u64,
}

impl Replies {
    /// Checks one answer.
    pub fn answered(&mut self, answer: &Answer<'_>, model: &Model) -> Result<(), Violation> {
        self.checked += 1;
        let zxid = Zxid(answer.header.zxid);
        if is_connection_error(answer.header.err) {
            return Ok(());
        }
        self.seen(answer.session, zxid)?;
        if matches!(answer.request, Request::Sync { .. }) && answer.fresh && zxid < answer.floor {
            let text = format!(
                "client {} synced at {zxid}, but {} was committed before it asked",
                answer.client, answer.floor
            );
            return Err(Violation::new("SyncIsFresh", text));
        }
        if is_write(answer.request) {
            check_write(answer, zxid, model)
        } else {
            check_read(answer, zxid, model)
        }
    }

    /// A session sees `zxid` in any message.
    pub fn seen(&mut self, session: SessionId, zxid: Zxid) -> Result<(), Violation> {
        let last = self.seen.entry(session).or_default();
        if zxid < *last {
            return Err(Violation::new("SessionOrder", format!("session {session} saw {zxid} after {last}")));
        }
        *last = zxid;
        Ok(())
    }
}

/// Requests that become a transaction, successful or not.
pub const fn is_write(request: &Request) -> bool {
    matches!(
        request,
        Request::Create(_)
            | Request::Delete { .. }
            | Request::SetData { .. }
            | Request::SetAcl { .. }
            | Request::Multi(_)
            | Request::CloseSession
    )
}

const fn is_connection_error(err: i32) -> bool {
    err == ErrorCode::SessionExpired as i32
        || err == ErrorCode::SessionMoved as i32
        || err == ErrorCode::ConnectionLoss as i32
        || err == ErrorCode::ThrottledOp as i32
}

fn check_write(answer: &Answer<'_>, zxid: Zxid, model: &Model) -> Result<(), Violation> {
    let violation = |text: String| {
        let head = format!("client {} session {} xid {}", answer.client, answer.session, answer.header.xid);
        Err(Violation::new("LinearizableWrites", format!("{head} {:?}: {text}", answer.request)))
    };
    let Some(summary) = model.summary(zxid) else {
        return violation(format!("was answered with {zxid}, which is not in the history"));
    };
    let header = summary.header;
    if header.client_id != answer.session.0 || header.cxid != answer.header.xid {
        return violation(format!(
            "was answered with {zxid}, which is request {} of 0x{:x}",
            header.cxid, header.client_id
        ));
    }
    let failed = answer.header.err != 0
        || matches!(answer.response, Some(Response::Multi(results)) if has_error(results));
    if failed != (summary.err != 0) {
        return violation(format!("answered err {} while {zxid} has err {}", answer.header.err, summary.err));
    }
    if zxid <= answer.floor {
        return violation(format!(
            "became {zxid}, but {} was committed before it was asked for",
            answer.floor
        ));
    }
    Ok(())
}

fn has_error(results: &[zk_jute::request::MultiResult]) -> bool {
    results.iter().any(|result| matches!(result, zk_jute::request::MultiResult::Error(_)))
}

fn check_read(answer: &Answer<'_>, zxid: Zxid, model: &Model) -> Result<(), Violation> {
    let (Request::GetData { path, .. }
    | Request::Exists { path, .. }
    | Request::GetChildren { path, .. }
    | Request::GetChildren2 { path, .. }) = answer.request
    else {
        return Ok(());
    };
    let expected = model.at(path, zxid);
    let truth = match (answer.header.err, expected, answer.response) {
        (0, Some(node), Some(response)) => same(node, response, || model.children(path, zxid)),
        (err, None, _) => err == ErrorCode::NoNode as i32 || is_fixed(path),
        (_, Some(_), _) => false,
    };
    if truth {
        return Ok(());
    }
    let text = format!(
        "client {} session {} read {:?} at {zxid}: got err {} {:?}, the history says {expected:?}",
        answer.client, answer.session, answer.request, answer.header.err, answer.response
    );
    Err(Violation::new("ReadsAreTrue", text))
}

/// Nodes that no transaction created.
fn is_fixed(path: &str) -> bool {
    path == "/" || path.starts_with("/zookeeper")
}

fn same<'a>(node: &NodeState, response: &Response, children: impl FnOnce() -> Vec<&'a str>) -> bool {
    let stat_agrees = |stat: &zk_jute::records::Stat| {
        (stat.version, stat.czxid, stat.mzxid, stat.ephemeral_owner)
            == (node.version, node.czxid.0, node.mzxid.0, node.owner)
    };
    let names_agree = |names: &[std::sync::Arc<str>]| {
        let mut names: Vec<&str> = names.iter().map(|name| &**name).collect();
        names.sort_unstable();
        names == children()
    };
    match response {
        Response::Data(data, stat) => {
            data.as_deref().unwrap_or_default() == node.data.as_deref().unwrap_or_default()
                && stat_agrees(stat)
        }
        Response::Stat(stat) => stat_agrees(stat),
        Response::Children(names) => names_agree(names),
        Response::ChildrenStat(names, stat) => stat_agrees(stat) && names_agree(names),
        _ => false,
    }
}
