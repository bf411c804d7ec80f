//! From [`Request`] to the bytes a client sends. The server itself forwards the client's own bytes and never calls
//! this; clients (the operator's probe, the simulator, tests) do.

use std::sync::Arc;

use super::{CreateRequest, Request, multi};
use crate::codec::Writer;
use crate::consts::OpCode;
use crate::records::Acl;

impl Request {
    /// Writes the body that follows a [`super::RequestHeader`] with [`Request::op`].
    pub fn encode(&self, w: &mut Writer<'_>) {
        match self {
            Self::Create(create) => create.encode(w),
            Self::Exists { path, watch }
            | Self::GetData { path, watch }
            | Self::GetChildren { path, watch }
            | Self::GetChildren2 { path, watch } => {
                w.string(path);
                w.bool(*watch);
            }
            Self::Delete { path, version: number }
            | Self::Check { path, version: number }
            | Self::CheckWatches { path, kind: number }
            | Self::RemoveWatches { path, kind: number }
            | Self::AddWatch { path, mode: number } => {
                w.string(path);
                w.i32(*number);
            }
            Self::SetData { path, data, version } => {
                w.string(path);
                w.buffer(data.as_deref());
                w.i32(*version);
            }
            Self::SetAcl { path, acl, version } => {
                w.string(path);
                Acl::encode_list(acl.as_deref(), w);
                w.i32(*version);
            }
            Self::GetAcl { path }
            | Self::Sync { path }
            | Self::GetEphemerals { prefix: path }
            | Self::GetAllChildrenNumber { path } => w.string(path),
            Self::DeleteContainer { path } => w.buffer(Some(path.as_bytes())),
            Self::Multi(ops) | Self::MultiRead(ops) => multi::encode(ops, w),
            Self::Ping | Self::WhoAmI | Self::CloseSession => {}
            Self::CreateSession { timeout_ms } => w.i32(*timeout_ms),
            Self::Sasl { token } => w.buffer(Some(token)),
            Self::Auth { .. }
            | Self::Reconfig { .. }
            | Self::SetWatches { .. }
            | Self::SetWatches2 { .. } => {
                self.encode_long(w);
            }
        }
    }

    /// The records of many fields.
    fn encode_long(&self, w: &mut Writer<'_>) {
        match self {
            Self::Auth { kind, scheme, auth } => {
                w.i32(*kind);
                w.string(scheme);
                w.buffer(Some(auth));
            }
            Self::Reconfig { joining, leaving, new_members, config_id } => {
                w.opt_string(joining.as_deref());
                w.opt_string(leaving.as_deref());
                w.opt_string(new_members.as_deref());
                w.i64(*config_id);
            }
            Self::SetWatches { relative_zxid, data, exist, child } => {
                encode_watches(*relative_zxid, [data, exist, child], w);
            }
            Self::SetWatches2 { relative_zxid, data, exist, child, persistent, persistent_recursive } => {
                encode_watches(*relative_zxid, [data, exist, child, persistent, persistent_recursive], w);
            }
            other => unreachable!("{:?} has no long form", other.op()),
        }
    }
}

fn encode_watches<const N: usize>(relative_zxid: i64, tables: [&Vec<Arc<str>>; N], w: &mut Writer<'_>) {
    w.i64(relative_zxid);
    for paths in tables {
        w.strings(paths);
    }
}

impl CreateRequest {
    pub(super) fn encode(&self, w: &mut Writer<'_>) {
        w.string(&self.path);
        w.buffer(self.data.as_deref());
        Acl::encode_list(self.acl.as_deref(), w);
        w.i32(self.flags);
        if self.op == OpCode::CreateTtl {
            w.i64(self.ttl);
        }
    }
}
