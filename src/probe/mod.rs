//! Asks one member for its facts over its admin server.
//!
//! One short HTTP exchange with a bound on time and on size: a member that hangs or babbles is a member that does
//! not answer, and costs the pass no more than [`TIMEOUT`].

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::Request;
use hyper::header::HOST;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::plan::MemberFacts;

/// Time one member gets to answer. Short against the two samples a rollout waits for, long against a busy server.
pub const TIMEOUT: Duration = Duration::from_millis(1500);
/// Largest answer accepted in bytes. An answer is about 1 KiB, and at most 128 digests of 100 bytes add 13 KiB.
const MAX_ANSWER: usize = 256 * 1024;
/// Where the facts are.
const PATH: &str = "/commands/member";

/// Why a member did not answer.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// No connection.
    #[error("cannot connect to {address}: {source}")]
    Connect { address: String, source: std::io::Error },
    /// The connection was there and the exchange failed.
    #[error("asking {address} failed: {source}")]
    Exchange { address: String, source: hyper::Error },
    /// The answer was cut off or larger than any answer is.
    #[error("reading the answer of {address} failed: {detail}")]
    Body { address: String, detail: String },
    /// An answer that is no success.
    #[error("{address} answered {status}")]
    Status { address: String, status: hyper::StatusCode },
    /// The answer is not the JSON agreed on.
    #[error("{address} answered what is not a member's facts: {source}")]
    Json { address: String, source: serde_json::Error },
    /// Nothing within [`TIMEOUT`].
    #[error("{address} did not answer within {} ms", TIMEOUT.as_millis())]
    Timeout { address: String },
}

/// Asks the member whose admin server listens on `host:port`.
///
/// # Errors
/// Whatever kept it from answering; to a planner all of them mean the same: no facts.
pub async fn member(host: &str, port: u16) -> Result<MemberFacts, ProbeError> {
    let address = format!("{host}:{port}");
    match tokio::time::timeout(TIMEOUT, ask(&address)).await {
        Ok(answer) => answer,
        Err(_) => Err(ProbeError::Timeout { address }),
    }
}

async fn ask(address: &str) -> Result<MemberFacts, ProbeError> {
    let at = || address.to_owned();
    let stream =
        TcpStream::connect(address).await.map_err(|source| ProbeError::Connect { address: at(), source })?;
    let exchange = |source| ProbeError::Exchange { address: at(), source };
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(exchange)?;
    let request = Request::get(PATH).header(HOST, address).body(Empty::<Bytes>::new());
    let request = request.map_err(|error| ProbeError::Body { address: at(), detail: error.to_string() })?;
    let talk = async {
        let response = sender.send_request(request).await.map_err(exchange)?;
        let status = response.status();
        if !status.is_success() {
            return Err(ProbeError::Status { address: at(), status });
        }
        let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
        body.map(http_body_util::Collected::to_bytes)
            .map_err(|error| ProbeError::Body { address: at(), detail: error.to_string() })
    };
    // The connection is driven here rather than in a task of its own, so that nothing outlives the question.
    tokio::pin!(talk);
    let mut connection = std::pin::pin!(connection);
    let mut closed = false;
    let bytes = loop {
        tokio::select! {
            answer = &mut talk => break answer?,
            _ = &mut connection, if !closed => closed = true,
        }
    };
    serde_json::from_slice(&bytes).map_err(|source| ProbeError::Json { address: at(), source })
}
