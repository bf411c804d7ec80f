//! Numbers of the protocol: operation codes, error codes, permissions (upstream: `ZooDefs`, `KeeperException`).

/// Operation codes (upstream `ZooDefs.OpCode`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(i32)]
pub enum OpCode {
    Notification = 0,
    Create = 1,
    Delete = 2,
    Exists = 3,
    GetData = 4,
    SetData = 5,
    GetAcl = 6,
    SetAcl = 7,
    GetChildren = 8,
    Sync = 9,
    Ping = 11,
    GetChildren2 = 12,
    Check = 13,
    Multi = 14,
    Create2 = 15,
    Reconfig = 16,
    CheckWatches = 17,
    RemoveWatches = 18,
    CreateContainer = 19,
    DeleteContainer = 20,
    CreateTtl = 21,
    MultiRead = 22,
    Auth = 100,
    SetWatches = 101,
    Sasl = 102,
    GetEphemerals = 103,
    GetAllChildrenNumber = 104,
    SetWatches2 = 105,
    AddWatch = 106,
    WhoAmI = 107,
    CreateSession = -10,
    CloseSession = -11,
    Error = -1,
}

impl OpCode {
    /// The code of `raw`, or `None` for a number upstream does not define.
    pub const fn from_i32(raw: i32) -> Option<Self> {
        Some(match raw {
            0 => Self::Notification,
            1 => Self::Create,
            2 => Self::Delete,
            3 => Self::Exists,
            4 => Self::GetData,
            5 => Self::SetData,
            6 => Self::GetAcl,
            7 => Self::SetAcl,
            8 => Self::GetChildren,
            9 => Self::Sync,
            11 => Self::Ping,
            12 => Self::GetChildren2,
            13 => Self::Check,
            14 => Self::Multi,
            15 => Self::Create2,
            16 => Self::Reconfig,
            17 => Self::CheckWatches,
            18 => Self::RemoveWatches,
            19 => Self::CreateContainer,
            20 => Self::DeleteContainer,
            21 => Self::CreateTtl,
            22 => Self::MultiRead,
            100 => Self::Auth,
            101 => Self::SetWatches,
            102 => Self::Sasl,
            103 => Self::GetEphemerals,
            104 => Self::GetAllChildrenNumber,
            105 => Self::SetWatches2,
            106 => Self::AddWatch,
            107 => Self::WhoAmI,
            -10 => Self::CreateSession,
            -11 => Self::CloseSession,
            -1 => Self::Error,
            _ => return None,
        })
    }
}

/// Error codes in reply headers (upstream `KeeperException.Code`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(i32)]
pub enum ErrorCode {
    Ok = 0,
    SystemError = -1,
    RuntimeInconsistency = -2,
    DataInconsistency = -3,
    ConnectionLoss = -4,
    MarshallingError = -5,
    Unimplemented = -6,
    OperationTimeout = -7,
    BadArguments = -8,
    UnknownSession = -12,
    NewConfigNoQuorum = -13,
    ReconfigInProgress = -14,
    ApiError = -100,
    NoNode = -101,
    NoAuth = -102,
    BadVersion = -103,
    NoChildrenForEphemerals = -108,
    NodeExists = -110,
    NotEmpty = -111,
    SessionExpired = -112,
    InvalidCallback = -113,
    InvalidAcl = -114,
    AuthFailed = -115,
    SessionMoved = -118,
    NotReadOnly = -119,
    EphemeralOnLocalSession = -120,
    NoWatcher = -121,
    RequestTimeout = -122,
    ReconfigDisabled = -123,
    SessionClosedRequireAuth = -124,
    QuotaExceeded = -125,
    ThrottledOp = -127,
}

/// Permission bits (upstream `ZooDefs.Perms`).
pub mod perms {
    pub const READ: i32 = 1;
    pub const WRITE: i32 = 2;
    pub const CREATE: i32 = 4;
    pub const DELETE: i32 = 8;
    pub const ADMIN: i32 = 16;
    pub const ALL: i32 = 31;
}

/// Frame and record limit for clients when `jute.maxbuffer` is not set: 0xfffff bytes, as upstream.
pub const JUTE_MAX_BUFFER: usize = 0xf_ffff;
