package dev.zkensemble.tests;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/**
 * Writes until its standard input ends, then prints what it was told: lines {@code create N ok|unknown},
 * {@code sequenced PATH N}, {@code zxid Z} in order, and totals. Usage: {@code FailoverWriter HOSTS NAME}.
 */
public final class FailoverWriter {
    private static final int SESSION_TIMEOUT_MS = 8000;
    private static final int PAUSE_MS = 2;
    private static final String ROOT = "/failover";

    private final String hosts;
    private final String base;
    private final Map<Integer, String> creates = new TreeMap<>();
    private final List<String> sequenced = new ArrayList<>();
    private final List<Long> zxids = new ArrayList<>();
    private int sequencedUnknown;
    private int counterOk;
    private int counterUnknown;
    private ZooKeeper zk;
    private volatile boolean stopping;

    private FailoverWriter(String hosts, String name) {
        this.hosts = hosts;
        this.base = ROOT + "/" + name;
    }

    public static void main(String[] args) throws Exception {
        FailoverWriter writer = new FailoverWriter(args[0], args[1]);
        Thread stop = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    // only the end counts
                }
            } catch (java.io.IOException e) {
                // an end, too
            }
            writer.stopping = true;
        });
        stop.setDaemon(true);
        stop.start();
        writer.write();
        writer.report();
        System.exit(0);
    }

    private void connect() throws Exception {
        if (zk != null) {
            zk.close(1000);
        }
        CountDownLatch connected = new CountDownLatch(1);
        zk = new ZooKeeper(hosts, SESSION_TIMEOUT_MS, event -> {
            if (event.getState() == KeeperState.SyncConnected) {
                connected.countDown();
            }
        });
        connected.await(60, TimeUnit.SECONDS);
    }

    private void write() throws Exception {
        connect();
        for (String path : List.of(ROOT, base, base + "/creates", base + "/sequenced", base + "/counter")) {
            ensure(path);
        }
        for (int number = 1; !stopping; number++) {
            create(number);
            sequence(number);
            count();
            Thread.sleep(PAUSE_MS);
        }
    }

    private void ensure(String path) throws Exception {
        while (true) {
            try {
                zk.create(path, null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
                return;
            } catch (KeeperException.NodeExistsException e) {
                return;
            } catch (KeeperException e) {
                lost(e);
            }
        }
    }

    /** Handles a lost answer; anything else is a failure of the test. */
    private void lost(KeeperException e) throws Exception {
        switch (e.code()) {
            case CONNECTIONLOSS, OPERATIONTIMEOUT -> Thread.sleep(20);
            case SESSIONEXPIRED -> connect();
            default -> throw e;
        }
    }

    private void create(int number) throws Exception {
        while (true) {
            try {
                Stat stat = new Stat();
                zk.create(base + "/creates/" + number, new byte[] {'x'}, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT, stat);
                zxids.add(stat.getCzxid());
                creates.put(number, "ok");
                return;
            } catch (KeeperException.NodeExistsException e) {
                if (!creates.containsKey(number)) {
                    throw e; // it was there before it was ever sent
                }
                creates.put(number, "ok");
                return;
            } catch (KeeperException e) {
                creates.put(number, "unknown");
                lost(e);
                if (stopping) {
                    return;
                }
            }
        }
    }

    private void sequence(int number) throws Exception {
        try {
            Stat stat = new Stat();
            byte[] data = Case.bytes(Integer.toString(number));
            String path = zk.create(
                    base + "/sequenced/n-", data, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_SEQUENTIAL, stat);
            zxids.add(stat.getCzxid());
            sequenced.add(path + " " + number);
        } catch (KeeperException e) {
            sequencedUnknown++;
            lost(e);
        }
    }

    private void count() throws Exception {
        boolean sent = false;
        try {
            Stat stat = new Stat();
            byte[] data = zk.getData(base + "/counter", false, stat);
            int value = data == null ? 0 : Integer.parseInt(Case.text(data));
            sent = true;
            byte[] next = Case.bytes(Integer.toString(value + 1));
            zxids.add(zk.setData(base + "/counter", next, stat.getVersion()).getMzxid());
            counterOk++;
        } catch (KeeperException.BadVersionException e) {
            // an addition whose answer was lost came late; the next read sees it
        } catch (KeeperException e) {
            counterUnknown += sent ? 1 : 0;
            lost(e);
        }
    }

    private void report() {
        creates.forEach((number, outcome) -> System.out.println("create " + number + " " + outcome));
        sequenced.forEach(line -> System.out.println("sequenced " + line));
        zxids.forEach(zxid -> System.out.println("zxid " + zxid));
        System.out.println("totals " + sequencedUnknown + " " + counterOk + " " + counterUnknown);
    }
}
