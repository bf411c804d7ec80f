use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use zk_core::Input;
use zk_core::input::LinkId;
use zk_core::tree::DataTree;
use zk_jute::election::{InitialMessage, Notification, PROTOCOL_VERSION_V1, PeerState, frame, try_unframe};
use zk_jute::quorum::{PacketType, QuorumPacket, SNAP_SIGNATURE};
use zk_jute::snapshot::{SnapshotDecoder, SnapshotPiece};
use zk_jute::{ServerId, Writer, Zxid};

use super::dial;
use super::election_port::ElectionPort;
use super::link::{Link, Overflow, Progress};
use super::quorum_port::QuorumPort;
use crate::config::{self, Config, Ensemble, HostPort, NetConfig, ServerLine, Sources};
use crate::driver::{Handle, Message};

fn packet(kind: PacketType, zxid: i64, data: &Bytes) -> QuorumPacket {
    QuorumPacket { kind, zxid: Zxid(zxid), data: Some(data.clone()), auth_info: None }
}

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("listener");
    let address = listener.local_addr().expect("address");
    let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
    (near.expect("near"), far.expect("far").0)
}

#[test]
fn a_learner_too_far_behind_overflows_its_queue_and_no_more_is_kept_for_it() {
    let link = Link::new();
    let megabyte = Bytes::from(vec![0; 1 << 20]);
    let pushed = (0..1000)
        .take_while(|zxid| link.push(packet(PacketType::Proposal, *zxid, &megabyte)).is_ok())
        .count();
    assert_eq!(pushed, 255, "256 MiB less what each packet costs beside its data");
    assert_eq!(link.push(packet(PacketType::Commit, 1, &Bytes::new())), Err(Overflow));
}

#[test]
fn only_the_first_packet_since_a_flush_asks_for_one() {
    let link = Link::new();
    let ping = || packet(PacketType::Ping, 1, &Bytes::new());
    assert_eq!((link.push(ping()), link.push(ping())), (Ok(true), Ok(false)));
    link.flush();
    assert_eq!(link.push(ping()), Ok(true));
}

#[tokio::test]
async fn a_snapshot_leaves_between_the_packets_around_it_and_last_words_leave_before_the_close() {
    let (near, mut far) = pair().await;
    let link = Link::new();
    let data = Bytes::from_static(b"data");
    link.push(packet(PacketType::Snap, 7, &data)).expect("room");
    link.push_snapshot(Box::new(DataTree::new()));
    link.push(packet(PacketType::NewLeader, 8, &data)).expect("room");
    link.close();
    let (_read, write) = near.into_split();
    let (driver, _receiver) = Handle::new();
    link.write_all(write, Progress::new(LinkId(1), driver)).await.expect("written");
    let mut received = Vec::new();
    far.read_to_end(&mut received).await.expect("read");

    let (first, len) = QuorumPacket::try_decode(&received).expect("packet").expect("whole");
    assert_eq!(first.kind, PacketType::Snap);
    let mut decoder = SnapshotDecoder::new();
    decoder.push(&received[len..]);
    let mut nodes = 0;
    while let Some(piece) = decoder.next().expect("snapshot") {
        nodes += usize::from(matches!(piece, SnapshotPiece::Node(_)));
    }
    assert_eq!(nodes, DataTree::new().node_count() - 1, "the count has the root twice");
    let rest = decoder.take_rest();
    assert_eq!(&rest[4..4 + SNAP_SIGNATURE.len()], SNAP_SIGNATURE.as_bytes());
    let (last, _) =
        QuorumPacket::try_decode(&rest[4 + SNAP_SIGNATURE.len()..]).expect("packet").expect("whole");
    assert_eq!((last.kind, last.zxid), (PacketType::NewLeader, Zxid(8)));
}

fn net_config() -> NetConfig {
    NetConfig {
        listen_on_all_ips: false,
        bind_retries: Some(0),
        election_connect_timeout: Duration::from_secs(2),
        learner_connect_limit: Duration::from_secs(2),
        observer_master_port: None,
        multi_address: false,
        keep_alive: false,
    }
}

/// An ensemble of servers 1 to 3 whose election addresses are those of `listeners`.
fn ensemble(listeners: &[&TcpListener]) -> Ensemble {
    let servers = listeners.iter().enumerate().map(|(index, listener)| {
        let port = listener.local_addr().expect("address").port();
        let line = ServerLine::parse(&format!("127.0.0.1:1:{port}"), false).expect("line");
        (ServerId(i64::try_from(index).expect("small") + 1), line)
    });
    Ensemble { servers: servers.collect(), groups: std::collections::BTreeMap::default(), version: 0 }
}

fn vote(leader: i64) -> Notification {
    Notification {
        state: PeerState::Looking,
        leader: ServerId(leader),
        zxid: Zxid(5),
        election_epoch: 1,
        peer_epoch: 0,
        version: 2,
        config: Some(Bytes::from_static(b"version=0")),
    }
}

fn hello(sid: i64) -> Bytes {
    let message = InitialMessage {
        protocol_version: PROTOCOL_VERSION_V1,
        sid: ServerId(sid),
        addresses: vec!["127.0.0.1:1".into()],
    };
    Writer::build(|w| message.encode(w))
}

/// Reads until one message is whole.
async fn read_one<T>(
    stream: &mut TcpStream,
    received: &mut BytesMut,
    decode: impl Fn(&[u8]) -> Option<(T, usize)>,
) -> T {
    loop {
        if let Some((message, len)) = decode(received) {
            drop(received.split_to(len));
            return message;
        }
        assert!(stream.read_buf(received).await.expect("read") > 0, "the connection ended early");
    }
}

fn unframe(received: &[u8]) -> Option<(Notification, usize)> {
    let (body, len) = try_unframe(received).expect("frame")?;
    Some((Notification::decode(body).expect("notification"), len))
}

fn initial(received: &[u8]) -> Option<(InitialMessage, usize)> {
    InitialMessage::try_decode(received).expect("initial message")
}

#[tokio::test]
async fn a_smaller_id_that_connects_is_hung_up_on_and_dialled_back() {
    let (mine, other, third) = (
        TcpListener::bind("127.0.0.1:0").await.expect("listener"),
        TcpListener::bind("127.0.0.1:0").await.expect("listener"),
        TcpListener::bind("127.0.0.1:0").await.expect("listener"),
    );
    let (driver, inputs) = Handle::new();
    let members = ensemble(&[&other, &mine, &third]);
    let port =
        ElectionPort::new(ServerId(2), &members, &net_config(), driver, tokio::runtime::Handle::current());
    let address = mine.local_addr().expect("address");
    tokio::spawn(port.clone().serve(mine));

    // Server 1 connects to server 2: closed without a word, and 2 comes back with its own hello.
    let mut dialled = TcpStream::connect(address).await.expect("connect");
    dialled.write_all(&hello(1)).await.expect("write");
    let (mut back, _) = other.accept().await.expect("dialled back");
    assert!(matches!(dialled.read(&mut [0; 1]).await, Ok(0) | Err(_)), "hung up on");
    let mut received = BytesMut::new();
    assert_eq!(read_one(&mut back, &mut received, initial).await.sid, ServerId(2));

    // Only the newest vote matters, and what was sent last comes again on a new connection.
    port.send(ServerId(1), &vote(2));
    assert_eq!(read_one(&mut back, &mut received, unframe).await.leader, ServerId(2));
    let mut frame_bytes = Vec::new();
    frame(&Writer::build(|w| vote(1).encode(w)), &mut frame_bytes);
    back.write_all(&frame_bytes).await.expect("write");
    let heard =
        tokio::task::spawn_blocking(move || inputs.recv_timeout(Duration::from_secs(5))).await.expect("join");
    assert!(
        matches!(heard, Ok(Message::Input(Input::Vote { from: ServerId(1), notification })) if notification == vote(1))
    );
    drop(back);
    let mut dialled = TcpStream::connect(address).await.expect("connect");
    dialled.write_all(&hello(1)).await.expect("write");
    let (mut back, _) = other.accept().await.expect("dialled back");
    let mut received = BytesMut::new();
    read_one(&mut back, &mut received, initial).await;
    assert_eq!(read_one(&mut back, &mut received, unframe).await.leader, ServerId(2));
}

#[tokio::test]
async fn a_larger_id_keeps_the_connection_it_opened_and_our_own_id_is_ignored() {
    let (mine, other, third) = (
        TcpListener::bind("127.0.0.1:0").await.expect("listener"),
        TcpListener::bind("127.0.0.1:0").await.expect("listener"),
        TcpListener::bind("127.0.0.1:0").await.expect("listener"),
    );
    let (driver, _inputs) = Handle::new();
    let members = ensemble(&[&other, &mine, &third]);
    let port =
        ElectionPort::new(ServerId(2), &members, &net_config(), driver, tokio::runtime::Handle::current());
    let address = mine.local_addr().expect("address");
    tokio::spawn(port.clone().serve(mine));

    let mut own = TcpStream::connect(address).await.expect("connect");
    own.write_all(&hello(2)).await.expect("write");
    assert!(matches!(own.read(&mut [0; 1]).await, Ok(0) | Err(_)), "our own id");

    // A vote for 3 makes this side dial once and hang up, so that 3 dials back.
    port.send(ServerId(3), &vote(2));
    let (mut dialled, _) = third.accept().await.expect("dialled");
    let mut received = BytesMut::new();
    assert_eq!(read_one(&mut dialled, &mut received, initial).await.sid, ServerId(2));
    assert!(matches!(dialled.read(&mut [0; 1]).await, Ok(0) | Err(_)), "the smaller id does not keep it");
    let mut kept = TcpStream::connect(address).await.expect("connect");
    kept.write_all(&hello(3)).await.expect("write");
    let mut received = BytesMut::new();
    assert_eq!(read_one(&mut kept, &mut received, unframe).await, vote(2), "what waited for 3 leaves now");
}

/// Fault: a connection that was replaced while its writer was stuck stayed, was read from, and was never closed.
#[tokio::test]
async fn a_connection_that_is_replaced_ends_though_its_peer_does_not_read() {
    let (mine, other, third) = (
        TcpListener::bind("127.0.0.1:0").await.expect("listener"),
        TcpListener::bind("127.0.0.1:0").await.expect("listener"),
        TcpListener::bind("127.0.0.1:0").await.expect("listener"),
    );
    let (driver, _inputs) = Handle::new();
    let members = ensemble(&[&other, &mine, &third]);
    let port =
        ElectionPort::new(ServerId(2), &members, &net_config(), driver, tokio::runtime::Handle::current());
    let address = mine.local_addr().expect("address");
    tokio::spawn(port.clone().serve(mine));
    let mut first = TcpStream::connect(address).await.expect("connect");
    first.write_all(&hello(3)).await.expect("write");
    port.send(ServerId(3), &vote(2));
    assert!(first.read(&mut [0; 1]).await.expect("read") > 0, "it is the connection in use");
    // More than both sockets hold, and nobody reads.
    let large = Notification { config: Some(vec![b'#'; 500_000].into()), ..vote(2) };
    for _ in 0..64 {
        port.send(ServerId(3), &large);
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }
    let mut second = TcpStream::connect(address).await.expect("connect");
    second.write_all(&hello(3)).await.expect("write");
    assert!(second.read(&mut [0; 1]).await.expect("read") > 0, "it has taken over");
    let mut votes = Vec::new();
    frame(&Writer::build(|w| vote(3).encode(w)), &mut votes);
    let refused = async {
        while first.write_all(&votes).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), refused).await.expect("the first connection is closed");
}

/// A configuration of server 1, standalone but for its sockets.
fn config() -> Arc<Config> {
    let dir = tempfile::tempdir().expect("directory");
    let file = dir.path().join("zoo.cfg");
    std::fs::write(&file, format!("dataDir={}\n", dir.path().display())).expect("write");
    let sources = Sources { file: Some(file), ..Sources::default() };
    Arc::new(config::load(&sources).expect("valid").config)
}

/// The next message of the driver's queue; panics if there is none for long.
async fn next(inputs: std::sync::mpsc::Receiver<Message>) -> (Message, std::sync::mpsc::Receiver<Message>) {
    let wait = move || (inputs.recv_timeout(Duration::from_secs(30)), inputs);
    let (message, inputs) = tokio::task::spawn_blocking(wait).await.expect("join");
    (message.expect("a message"), inputs)
}

/// Fault: the writer of a link that was closed while it waited for a peer that does not read waited on, and with it the
/// link's socket and one of the places for links.
#[tokio::test]
async fn a_closed_link_ends_though_its_peer_does_not_read() {
    let (driver, inputs) = Handle::new();
    let port = QuorumPort::new(config(), driver, tokio::runtime::Handle::current());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("listener");
    let address = listener.local_addr().expect("address");
    tokio::spawn(port.serve(listener, false));
    let _silent = TcpStream::connect(address).await.expect("connect");
    let (Message::LinkOpened { link, .. }, inputs) = next(inputs).await else { panic!("no link") };
    let megabyte = Bytes::from(vec![0; 1 << 20]);
    for zxid in 0..64 {
        link.push(packet(PacketType::Proposal, zxid, &megabyte)).expect("room");
    }
    link.flush();
    // All run on this thread: the writer takes the queue as a whole and is stuck in it before the close.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    link.close();
    let (Message::LinkEnded { reason, .. }, _) = next(inputs).await else { panic!("no end") };
    assert_eq!(reason, "closed");
}

/// Fault: `tcpKeepAlive` was set on accepted sockets only.
#[tokio::test]
async fn dialled_sockets_have_keep_alive_as_configured() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("listener");
    let port = listener.local_addr().expect("address").port();
    let address = HostPort { host: "127.0.0.1".to_owned(), port };
    for keep_alive in [true, false] {
        let limit = Duration::from_secs(30);
        let stream = dial::connect(std::slice::from_ref(&address), limit, keep_alive).await.expect("connect");
        let socket = TcpSocket::from_std_stream(stream.into_std().expect("socket"));
        assert_eq!(socket.keepalive().expect("option"), keep_alive);
    }
}

/// Fault: an address that swallows packets took all the time there was, and the member's other one was never tried.
#[tokio::test]
async fn an_address_that_does_not_answer_leaves_time_for_the_next() {
    let full = TcpSocket::new_v4().expect("socket");
    full.bind("127.0.0.1:0".parse().expect("address")).expect("bind");
    let full = full.listen(1).expect("listen");
    let good = TcpListener::bind("127.0.0.1:0").await.expect("listener");
    let at = |listener: &TcpListener| HostPort {
        host: "127.0.0.1".to_owned(),
        port: listener.local_addr().expect("address").port(),
    };
    // Nobody accepts there, and once its queue is full it answers no more.
    let mut queued = Vec::new();
    let brief = Duration::from_millis(200);
    while let Ok(stream) = dial::connect(&[at(&full)], brief, false).await {
        queued.push(stream);
        assert!(queued.len() < 100, "the queue is never full");
    }
    let opened = dial::connect(&[at(&full), at(&good)], Duration::from_secs(2), false).await;
    assert_eq!(opened.expect("the second answers").peer_addr().ok(), good.local_addr().ok());
}
