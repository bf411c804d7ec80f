// Prints golden.txt: what the classes of Apache ZooKeeper 3.9.5 themselves write, one `name hex` line a record.
//
// How it was run (Java 17; `cp` holds the zookeeper 3.9.5 jar and its dependencies, metrics-core and snappy-java,
// e.g. from `mvn dependency:copy-dependencies`):
//
//     java -cp 'cp/*' Golden.java > golden.txt
//
// tests/jute knows the value behind each name. Lines named `text` hold bytes and what Java reads them as.

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.jute.BinaryInputArchive;
import org.apache.jute.BinaryOutputArchive;
import org.apache.jute.Record;
import org.apache.zookeeper.*;
import org.apache.zookeeper.ZooDefs.OpCode;
import org.apache.zookeeper.data.*;
import org.apache.zookeeper.proto.*;
import org.apache.zookeeper.server.*;
import org.apache.zookeeper.server.persistence.Util;
import org.apache.zookeeper.server.quorum.*;
import org.apache.zookeeper.server.util.SerializeUtils;
import org.apache.zookeeper.txn.*;

public class Golden {
    interface Body {
        void write(BinaryOutputArchive out) throws Exception;
    }

    static byte[] bytes(Body body) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        body.write(BinaryOutputArchive.getArchive(out));
        return out.toByteArray();
    }

    static byte[] bytes(Record... records) throws Exception {
        return bytes(out -> {
            for (Record record : records) {
                record.serialize(out, "record");
            }
        });
    }

    static void emit(String name, byte[] bytes) {
        System.out.println(name + " " + HexFormat.of().formatHex(bytes));
    }

    static void emit(String name, Record... records) throws Exception {
        emit(name, bytes(records));
    }

    static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static final byte[] DATA = {0, 1, (byte) 0x80, (byte) 0xff};
    static final byte[] PASSWORD = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    static final List<ACL> ACLS = List.of(
        new ACL(31, new Id("world", "anyone")),
        new ACL(5, new Id("digest", "żuk:xyz")));
    static final List<ACL> WORLD = List.of(new ACL(31, new Id("world", "anyone")));
    static final Stat STAT = new Stat(0x100000001L, 0x100000002L, 1700000000001L, 1700000000002L, 3, 4, 5,
        0x1122334455667788L, 7, 8, 0x100000009L);

    public static void main(String[] args) throws Exception {
        records();
        requests();
        responses();
        multis();
        txns();
        quorum();
        election();
        snapshots();
        passwords();
        texts();
    }

    static void records() throws Exception {
        emit("id", new Id("digest", "żuk:xyz"));
        emit("acl", ACLS.get(1));
        emit("stat", STAT);
        emit("stat-persisted", new StatPersisted(1, 2, 3, 4, 5, 6, 7, -8, 9));
        emit("string-supplementary", bytes(out -> out.writeString("a\u00e9\u65e5\ud83d\ude00z", "text")));
        emit("connect-request", new ConnectRequest(0, 0x100000001L, 30000, 0x1122334455667788L, PASSWORD, true));
        emit("connect-request-old", bytes(out -> {
            out.writeInt(0, "protocolVersion");
            out.writeLong(0x100000001L, "lastZxidSeen");
            out.writeInt(30000, "timeOut");
            out.writeLong(0x1122334455667788L, "sessionId");
            out.writeBuffer(PASSWORD, "passwd");
        }));
        emit("connect-response", new ConnectResponse(0, 30000, 0x1122334455667788L, PASSWORD, false));
        org.apache.zookeeper.compat.ProtocolManager old = new org.apache.zookeeper.compat.ProtocolManager();
        emit("connect-response-old", bytes(out ->
            old.serializeConnectResponse(new ConnectResponse(0, 30000, 0x1122334455667788L, PASSWORD, false), out)));
        emit("request-header", new RequestHeader(-8, OpCode.setWatches));
        emit("reply-header", new ReplyHeader(7, 0x100000001L, -101));
        emit("multi-header", new MultiHeader(OpCode.check, false, -1));
        emit("watcher-event", new WatcherEvent(3, 3, "/a/b"));
        emit("client-info", new ClientInfo("digest", "bob"));
    }

    static void requests() throws Exception {
        emit("request-1", new CreateRequest("/a/b-", DATA, ACLS, 3));
        emit("request-1-nulls", new CreateRequest("/a/b-", null, null, 0));
        emit("request-15", new CreateRequest("/a", DATA, ACLS, 1));
        emit("request-19", new CreateRequest("/c", DATA, ACLS, 4));
        emit("request-21", new CreateTTLRequest("/t", DATA, ACLS, 5, 60000));
        emit("request-2", new DeleteRequest("/a", -1));
        emit("request-3", new ExistsRequest("/a", true));
        emit("request-4", new GetDataRequest("/a", false));
        emit("request-5", new SetDataRequest("/a", DATA, 9));
        emit("request-6", new GetACLRequest("/a"));
        emit("request-7", new SetACLRequest("/a", ACLS, 2));
        emit("request-8", new GetChildrenRequest("/a", true));
        emit("request-12", new GetChildren2Request("/a", false));
        emit("request-9", new SyncRequest("/a"));
        emit("request-13", new CheckVersionRequest("/a", 4));
        emit("request-16", new ReconfigRequest("server.4=h:1:2;3", null, "", -1));
        emit("request-17", new CheckWatchesRequest("/a", 3));
        emit("request-18", new RemoveWatchesRequest("/a", 2));
        emit("request-20", new DeleteContainerRequest("/c/ż"));
        emit("request-100", new AuthPacket(0, "digest", utf8("bob:pw")));
        emit("request-101", new SetWatches(5, List.of("/a", "/b"), List.of(), List.of("/c")));
        emit("request-105",
            new SetWatches2(5, List.of("/a", "/b"), List.of(), List.of("/c"), List.of("/d"), List.of("/e")));
        emit("request-102", new GetSASLRequest(DATA));
        emit("request-103", new GetEphemeralsRequest("/a"));
        emit("request-104", new GetAllChildrenNumberRequest("/a"));
        emit("request-106", new AddWatchRequest("/a", 1));
        emit("request--10", new CreateSessionTxn(30000));
    }

    static void responses() throws Exception {
        emit("response-1", new CreateResponse("/a"));
        emit("response-15", new Create2Response("/a", STAT));
        emit("response-3", new ExistsResponse(STAT));
        emit("response-4", new GetDataResponse(DATA, STAT));
        emit("response-4-null", new GetDataResponse(null, STAT));
        emit("response-5", new SetDataResponse(STAT));
        emit("response-6", new GetACLResponse(ACLS, STAT));
        emit("response-7", new SetACLResponse(STAT));
        emit("response-8", new GetChildrenResponse(List.of("x", "y")));
        emit("response-12", new GetChildren2Response(List.of("x", "y"), STAT));
        emit("response-9", new SyncResponse("/a"));
        emit("response-103", new GetEphemeralsResponse(List.of("/x", "/y")));
        emit("response-104", new GetAllChildrenNumberResponse(77));
        emit("response-106", new ErrorResponse(0));
        emit("response-107", new WhoAmIResponse(List.of(new ClientInfo("ip", "::1"), new ClientInfo("digest", "bob"))));
    }

    static void multis() throws Exception {
        emit("request-14", new MultiOperationRecord(List.of(
            Op.create("/p", DATA, ACLS, 0),
            Op.create("/e-", DATA, ACLS, CreateOptions.newBuilder(ACLS, CreateMode.EPHEMERAL_SEQUENTIAL).build()
                .getCreateMode()),
            Op.create("/c", DATA, ACLS, CreateMode.CONTAINER),
            Op.delete("/d", 3),
            Op.setData("/s", DATA, 4),
            Op.check("/k", 5))));
        emit("request-14-create2", new MultiOperationRecord(List.of(
            Op.create("/p", DATA, CreateOptions.newBuilder(ACLS, CreateMode.PERSISTENT).build()))));
        emit("request-14-ttl", new MultiOperationRecord(List.of(
            Op.create("/t", DATA, ACLS, CreateMode.PERSISTENT_WITH_TTL, 60000))));
        emit("request-14-empty", new MultiOperationRecord());
        emit("request-22", new MultiOperationRecord(List.of(Op.getData("/a"), Op.getChildren("/b"))));

        MultiResponse writes = new MultiResponse();
        writes.add(new OpResult.CreateResult("/p"));
        writes.add(new OpResult.CreateResult("/p", STAT));
        writes.add(new OpResult.DeleteResult());
        writes.add(new OpResult.SetDataResult(STAT));
        writes.add(new OpResult.CheckResult());
        emit("response-14", writes);
        MultiResponse failed = new MultiResponse();
        failed.add(new OpResult.ErrorResult(0));
        failed.add(new OpResult.ErrorResult(-101));
        failed.add(new OpResult.ErrorResult(-2));
        emit("response-14-failed", failed);
        MultiResponse reads = new MultiResponse();
        reads.add(new OpResult.GetDataResult(DATA, STAT));
        reads.add(new OpResult.GetChildrenResult(List.of("x", "y")));
        reads.add(new OpResult.ErrorResult(-101));
        emit("response-22", reads);
    }

    static TxnHeader header(int type) {
        return new TxnHeader(0x1122334455667788L, 7, 0x100000003L, 1700000000003L, type);
    }

    static byte[] entry(int type, Record body) throws Exception {
        return Util.marshallTxnEntry(header(type), body, null);
    }

    static void txn(String name, int type, Record body) throws Exception {
        emit("txn-" + name, entry(type, body));
        emit("txn-" + name + "-digest", Util.marshallTxnEntry(header(type), body, new TxnDigest(2, 0x1234567890L)));
    }

    static void txns() throws Exception {
        txn("1", OpCode.create, new CreateTxn("/a", DATA, ACLS, true, 6));
        emit("txn-1-v0", entry(OpCode.create, new CreateTxnV0("/a", DATA, ACLS, true)));
        emit("txn-1-nulls", entry(OpCode.create, new CreateTxn("/a", null, null, false, 6)));
        txn("15", OpCode.create2, new CreateTxn("/a", DATA, ACLS, false, 6));
        txn("21", OpCode.createTTL, new CreateTTLTxn("/t", DATA, ACLS, 6, 60000));
        txn("19", OpCode.createContainer, new CreateContainerTxn("/c", DATA, ACLS, 6));
        txn("2", OpCode.delete, new DeleteTxn("/a"));
        txn("20", OpCode.deleteContainer, new DeleteTxn("/c"));
        txn("5", OpCode.setData, new SetDataTxn("/a", DATA, 8));
        txn("16", OpCode.reconfig, new SetDataTxn("/zookeeper/config", DATA, -1));
        txn("7", OpCode.setACL, new SetACLTxn("/a", ACLS, 3));
        txn("-10", OpCode.createSession, new CreateSessionTxn(30000));
        txn("-11", OpCode.closeSession, new CloseSessionTxn(List.of("/a", "/b")));
        txn("-11-empty", OpCode.closeSession, new CloseSessionTxn(List.of()));
        txn("-11-short", OpCode.closeSession, new CloseSessionTxn(List.of("/abc")));
        txn("-11-absent", OpCode.closeSession, null);
        txn("-1", OpCode.error, new ErrorTxn(-101));
        txn("14", OpCode.multi, new MultiTxn(List.of(
            new Txn(OpCode.create, bytes(new CreateTxn("/a", DATA, ACLS, true, 6))),
            new Txn(OpCode.create2, bytes(new CreateTxn("/b", DATA, ACLS, false, 7))),
            new Txn(OpCode.createTTL, bytes(new CreateTTLTxn("/t", DATA, ACLS, 6, 60000))),
            new Txn(OpCode.createContainer, bytes(new CreateContainerTxn("/c", DATA, ACLS, 6))),
            new Txn(OpCode.delete, bytes(new DeleteTxn("/d"))),
            new Txn(OpCode.setData, bytes(new SetDataTxn("/s", DATA, 8))),
            new Txn(OpCode.check, bytes(new CheckVersionTxn("/k", 5))))));
        txn("14-failed", OpCode.multi, new MultiTxn(List.of(
            new Txn(OpCode.error, bytes(new ErrorTxn(0))),
            new Txn(OpCode.error, bytes(new ErrorTxn(-101))),
            new Txn(OpCode.error, bytes(new ErrorTxn(-2))))));
        List<ACL> astral = List.of(new ACL(1, new Id("digest", "\ud83d\ude00:x")));
        emit("txn-1-supplementary",
            entry(OpCode.create, new CreateTxn("/a", DATA, astral, false, 1)));
        emit("txn-setMaxChildren", entry(1000, new SetMaxChildrenTxn("/a", 3)));
    }

    static void quorum() throws Exception {
        emit("packet-ping", new QuorumPacket(5, 0x100000001L, null, null));
        emit("packet-request", new QuorumPacket(1, -1, DATA,
            List.of(new Id("ip", "127.0.0.1"), new Id("digest", "bob:h"))));
        emit("packet-proposal", new QuorumPacket(2, 0x100000003L,
            Util.marshallTxnEntry(header(OpCode.delete), new DeleteTxn("/a"), new TxnDigest(2, 5)), null));
        emit("learner-info", new LearnerInfo(3, 0x10000, 0x100000000L));
    }

    static void election() throws Exception {
        Method plain = FastLeaderElection.class.getDeclaredMethod(
            "buildMsg", int.class, long.class, long.class, long.class, long.class);
        plain.setAccessible(true);
        Method full = FastLeaderElection.class.getDeclaredMethod(
            "buildMsg", int.class, long.class, long.class, long.class, long.class, byte[].class);
        full.setAccessible(true);
        byte[] config = utf8("server.1=a:2888:3888:participant;2181\nversion=100000000");
        emit("notification-40", ((ByteBuffer) plain.invoke(null, 0, 3L, 0x500000001L, 9L, 5L)).array());
        emit("notification", ((ByteBuffer) full.invoke(null, 2, 3L, 0x500000001L, 9L, 5L, config)).array());
        emit("notification-observer", ((ByteBuffer) full.invoke(
            null, 0, Long.MIN_VALUE, Long.MIN_VALUE, 9L, Long.MIN_VALUE, config)).array());
        emit("notification-28",
            ByteBuffer.allocate(28).putInt(1).putLong(3).putLong(0x500000001L).putLong(9).array());
        initial("initial-v1", QuorumCnxManager.PROTOCOL_VERSION_V1, "zk-0.example:3888", 1);
        initial("initial-v2", QuorumCnxManager.PROTOCOL_VERSION_V2, "10.0.0.1:3888|[fd00::1]:3889", 2);
        emit("initial-ancient", ByteBuffer.allocate(8).putLong(3).array());
    }

    // startConnection needs a running peer, so the fields are written here and checked by upstream's own parser.
    static void initial(String name, long version, String addresses, int expected) throws Exception {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        out.writeLong(version);
        out.writeLong(3);
        out.writeInt(utf8(addresses).length);
        out.write(utf8(addresses));
        DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes.toByteArray()));
        QuorumCnxManager.InitialMessage parsed = QuorumCnxManager.InitialMessage.parse(in.readLong(), in);
        if (parsed.sid != 3 || parsed.electionAddr.size() != expected) {
            throw new IOException("upstream reads something else: " + parsed);
        }
        emit(name, bytes.toByteArray());
    }

    static void snapshots() throws Exception {
        DataTree tree = new DataTree();
        tree.createNode("/a", DATA, ACLS, 0x42, 1, 0x100000001L, 1700000000001L);
        tree.createNode("/b", null, WORLD, 0, 2, 0x100000002L, 1700000000002L);
        tree.createNode("/b/ż", utf8("x"), ACLS, 0, 1, 0x100000003L, 1700000000003L);
        Map<Long, Integer> sessions = new TreeMap<>(Map.of(0x42L, 30000));
        emit("snapshot", bytes(out -> SerializeUtils.serializeSnapshot(tree, out, sessions)));
        emit("snapshot-digest", bytes(out -> tree.serializeZxidDigest(out)));
    }

    static void passwords() throws Exception {
        Method method = ZooKeeperServer.class.getDeclaredMethod("generatePasswd", long.class);
        method.setAccessible(true);
        ZooKeeperServer server = new ZooKeeperServer();
        for (long session : new long[] {0, 1, -1, 0x1122334455667788L, 0x300012345670000L, Long.MIN_VALUE}) {
            emit("password " + session, (byte[]) method.invoke(server, session));
        }
    }

    // Malformed text of every kind, as jute's reader takes it.
    static void texts() throws Exception {
        int[] alphabet = {0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc2, 0xdf, 0xe0, 0xe1, 0xed, 0xed,
            0xef, 0xf0, 0xf1, 0xf4, 0xf5, 0xff};
        Random random = new Random(7);
        for (int i = 0; i < 500; i++) {
            byte[] raw = new byte[1 + random.nextInt(9)];
            for (int at = 0; at < raw.length; at++) {
                raw[at] = (byte) alphabet[random.nextInt(alphabet.length)];
            }
            byte[] field = bytes(out -> out.writeBuffer(raw, "text"));
            String text = BinaryInputArchive.getArchive(new ByteArrayInputStream(field)).readString("text");
            emit("text " + HexFormat.of().formatHex(raw), utf8(text));
        }
    }
}
