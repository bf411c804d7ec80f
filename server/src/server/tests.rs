//! A server inside this process: what happens at its end, whatever the end is.

use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use zk_core::input::DiskError;
use zk_jute::request::ConnectRequest;
use zk_jute::{Writer, Zxid};

use super::*;
use crate::driver::Message;

/// Longer than anything here takes.
const LIMIT: Duration = Duration::from_secs(30);

/// A standalone server on a client port of its own, with what announces its end.
async fn serve(dir: &std::path::Path) -> (Handle, Lifecycle, std::net::SocketAddr) {
    let file = dir.join("zoo.cfg");
    std::fs::write(&file, format!("dataDir={}\nadmin.enableServer=false\n", dir.display())).expect("write");
    let sources = Sources { file: Some(file), ..Sources::default() };
    let config = Arc::new(config::load(&sources).expect("valid").config);
    let mut ports = Ports::open(&config).await.expect("ports");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("listener");
    let address = listener.local_addr().expect("address");
    ports.client = Some(listener);
    let (lifecycle, announce) = Lifecycle::new();
    let server = Server::build(config, announce).expect("server");
    let driver = server.admin.driver.clone();
    server.serve(ports);
    (driver, lifecycle, address)
}

/// A connection with a session.
async fn session(address: std::net::SocketAddr) -> TcpStream {
    let request = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: 0,
        timeout_ms: 40_000,
        session_id: 0,
        password: vec![0; 16].into(),
        read_only: Some(false),
    };
    let body = Writer::build(|w| request.encode(w));
    let mut frame = u32::try_from(body.len()).expect("small").to_be_bytes().to_vec();
    frame.extend_from_slice(&body);
    loop {
        let mut stream = TcpStream::connect(address).await.expect("connect");
        stream.write_all(&frame).await.expect("write");
        // Until it serves, connections are closed.
        if stream.read(&mut [0; 256]).await.is_ok_and(|len| len > 0) {
            return stream;
        }
        sleep(Duration::from_millis(10)).await;
    }
}

/// Fault: only a drain closed the sessions' connections; after a failed fsync their clients hung until the process was
/// gone, which waited two seconds for them.
#[tokio::test]
async fn a_halt_for_any_reason_closes_the_connections_of_sessions() {
    let dir = tempfile::tempdir().expect("directory");
    let (driver, lifecycle, address) = serve(dir.path()).await;
    let mut client = timeout(LIMIT, session(address)).await.expect("a session");
    let failed = Err(DiskError::SyncFailed("on purpose".to_owned()));
    driver.input(Input::SnapshotDone { zxid: Zxid::ZERO, result: failed });
    assert_eq!(lifecycle.halted().await, Some(HaltReason::DiskFailed("on purpose".to_owned())));
    let ended = timeout(LIMIT, client.read(&mut [0; 1])).await.expect("the connection is closed");
    assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
}

/// The rule that a stop that hangs can still be ended: the first signal drains, the second one waits for nothing.
#[tokio::test]
async fn the_second_signal_ends_a_stop_that_hangs() {
    let (driver, inputs) = Handle::new();
    let (lifecycle, _announce) = Lifecycle::new();
    let mut stop = Stop::install(None).expect("signals");
    kill_process(getpid(), Signal::TERM).expect("signal");
    let waiting = tokio::spawn(async move { halted(&mut stop, &driver, &lifecycle).await });
    let wait = move || (inputs.recv_timeout(LIMIT), inputs);
    let (first, _inputs) = tokio::task::spawn_blocking(wait).await.expect("join");
    assert!(matches!(first, Ok(Message::Input(Input::Drain))), "the first signal drains");
    kill_process(getpid(), Signal::TERM).expect("signal");
    let end = timeout(LIMIT, waiting).await.expect("in time").expect("join");
    assert!(matches!(end, End::SecondSignal), "{end:?}");
}
