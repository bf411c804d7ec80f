import java.nio.file.*;
import java.util.*;
import org.apache.zookeeper.*;
import org.apache.zookeeper.data.*;
import org.apache.zookeeper.server.quorum.*;

/** Writes a data directory with one member of the real server: args = dataDir, port base. */
public class Golden {
    public static void main(String[] args) throws Exception {
        Path dir = Paths.get(args[0]);
        int port = Integer.parseInt(args[1]);
        Files.createDirectories(dir);
        Files.writeString(dir.resolve("myid"), "1");
        System.setProperty("zookeeper.preAllocSize", "4");
        System.setProperty("zookeeper.snapCount", "16");
        System.setProperty("zookeeper.extendedTypesEnabled", "true");
        System.setProperty("zookeeper.admin.enableServer", "false");
        Path cfg = dir.resolveSibling("zoo.cfg");
        Files.writeString(cfg, "tickTime=200\ninitLimit=10\nsyncLimit=5\ndataDir=" + dir + "\nclientPort=" + port
            + "\nstandaloneEnabled=false\nadmin.enableServer=false\nserver.1=127.0.0.1:" + (port + 1) + ":" + (port + 2) + "\n");
        QuorumPeerConfig config = new QuorumPeerConfig();
        config.parse(cfg.toString());
        Thread server = new Thread(() -> {
            try { new QuorumPeerMain().runFromConfig(config); } catch (Exception e) { e.printStackTrace(); }
        });
        server.setDaemon(true);
        server.start();
        Thread.sleep(3000);
        work(port);
        Thread.sleep(500);
        Runtime.getRuntime().halt(0);
    }

    static void work(int port) throws Exception {
        ZooKeeper zk = new ZooKeeper("127.0.0.1:" + port, 4000, e -> { });
        List<ACL> open = ZooDefs.Ids.OPEN_ACL_UNSAFE;
        zk.create("/a", "one".getBytes(), open, CreateMode.PERSISTENT);
        zk.create("/a/b", null, open, CreateMode.PERSISTENT);
        zk.create("/a/\u017c\u00f3\u0142\u0107", new byte[0], open, CreateMode.PERSISTENT);
        zk.create("/a/seq-", "s".getBytes(), open, CreateMode.PERSISTENT_SEQUENTIAL);
        zk.create("/a/eph", "e".getBytes(), open, CreateMode.EPHEMERAL);
        zk.create("/c", null, open, CreateMode.CONTAINER);
        zk.create("/t", null, open, CreateMode.PERSISTENT_WITH_TTL, new Stat(), 3600000);
        List<ACL> acl = Arrays.asList(new ACL(ZooDefs.Perms.READ, ZooDefs.Ids.ANYONE_ID_UNSAFE),
            new ACL(ZooDefs.Perms.ALL, new Id("digest", "user:pTx3hpw0wsRJ0BxlLNCq4oVxMoQ=")));
        zk.create("/acl", "x".getBytes(), acl, CreateMode.PERSISTENT);
        zk.setACL("/a/b", acl, 0);
        zk.setData("/a", "two".getBytes(), 0);
        try { zk.delete("/missing", -1); } catch (KeeperException e) { }
        zk.multi(Arrays.asList(Op.create("/m", null, open, CreateMode.PERSISTENT), Op.setData("/a", "three".getBytes(), 1),
            Op.check("/a/b", 0)));
        try {
            zk.multi(Arrays.asList(Op.create("/n", null, open, CreateMode.PERSISTENT), Op.delete("/missing", -1)));
        } catch (KeeperException e) { }
        ZooKeeper other = new ZooKeeper("127.0.0.1:" + port, 4000, e -> { });
        other.create("/a/other", null, open, CreateMode.EPHEMERAL);
        other.close();
        for (int i = 0; i < 12; i++) zk.create("/s" + i, ("v" + i).getBytes(), open, CreateMode.PERSISTENT);
        zk.delete("/s3", -1);
    }
}
