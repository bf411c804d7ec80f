//! What the parent of a path is, as `PrepRequestProcessor` asks (upstream `validatePathForCreate` and
//! `getParentPathAndValidate`), and upstream's path rules as error codes.

use zk_jute::ErrorCode;

use crate::tree::path::validate_path;

/// Nodes that the server itself needs; nobody may delete them (upstream `DataTree.isSpecialPath`).
const SPECIAL: [&str; 4] = ["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"];

/// Checks a whole path.
///
/// # Errors
/// [`ErrorCode::BadArguments`] if [`validate_path`] refuses it.
pub(super) fn validate(path: &str) -> Result<(), ErrorCode> {
    validate_path(path).map_err(|_| ErrorCode::BadArguments)
}

/// The parent of a path that a create names, possibly still without its sequence number; "" is the root.
///
/// # Errors
/// [`ErrorCode::BadArguments`] if there is no slash or a null character.
pub(super) fn parent_for_create(path: &str) -> Result<&str, ErrorCode> {
    match path.rfind('/') {
        Some(slash) if !path.contains('\0') => Ok(&path[..slash]),
        _ => Err(ErrorCode::BadArguments),
    }
}

/// The parent of a path to delete; "" is the root.
///
/// # Errors
/// As [`parent_for_create`], and for the server's own nodes.
pub(super) fn parent_for_delete(path: &str) -> Result<&str, ErrorCode> {
    if SPECIAL.contains(&path) { Err(ErrorCode::BadArguments) } else { parent_for_create(path) }
}
