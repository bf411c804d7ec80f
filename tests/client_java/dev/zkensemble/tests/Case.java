package dev.zkensemble.tests;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;

/** What every case has: clients that are closed at its end, a node of its own, and checks that say what they found. */
abstract class Case implements AutoCloseable {
    static final int SESSION_TIMEOUT_MS = 8000;
    static final int WAIT_MS = 10_000;
    /** Long enough for an event that should not come to come. */
    static final int SILENCE_MS = 300;

    final String hosts;
    final String base;
    private final List<ZooKeeper> clients = new ArrayList<>();

    Case(String hosts, String name) {
        this.hosts = hosts;
        this.base = "/" + name;
    }

    /** A connected client. */
    final ZooKeeper connect() throws Exception {
        return connect(hosts, SESSION_TIMEOUT_MS, event -> {});
    }

    final ZooKeeper connect(String to, int timeoutMs, Watcher watcher) throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper zk = new ZooKeeper(to, timeoutMs, event -> {
            if (event.getState() == Watcher.Event.KeeperState.SyncConnected) {
                connected.countDown();
            }
            watcher.process(event);
        });
        clients.add(zk);
        check(connected.await(WAIT_MS, TimeUnit.MILLISECONDS), "not connected to " + to);
        return zk;
    }

    /** The case's own node, made by {@code zk}. */
    final String own(ZooKeeper zk) throws Exception {
        return zk.create(base, bytes("base"), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
    }

    static String make(ZooKeeper zk, String path, CreateMode mode) throws Exception {
        return zk.create(path, new byte[0], Ids.OPEN_ACL_UNSAFE, mode);
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] data) {
        return new String(data, StandardCharsets.UTF_8);
    }

    static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static void same(Object wanted, Object found) {
        check(Objects.equals(wanted, found), "wanted " + wanted + ", found " + found);
    }

    static void fails(KeeperException.Code code, Callable<?> act) throws Exception {
        try {
            Object result = act.call();
            throw new AssertionError("wanted " + code + ", found " + result);
        } catch (KeeperException e) {
            same(code, e.code());
        }
    }

    interface Condition {
        boolean holds() throws Exception;
    }

    static void await(String what, Condition condition) throws Exception {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(2 * WAIT_MS);
        while (!condition.holds()) {
            check(System.nanoTime() < end, "not in time: " + what);
            Thread.sleep(10);
        }
    }

    /** Events of a watch, to be taken one by one. */
    static final class Events implements Watcher {
        private final BlockingQueue<WatchedEvent> queue = new LinkedBlockingQueue<>();

        @Override
        public void process(WatchedEvent event) {
            if (event.getType() != EventType.None) {
                queue.add(event);
            }
        }

        void expect(EventType type, String path) throws InterruptedException {
            WatchedEvent event = queue.poll(WAIT_MS, TimeUnit.MILLISECONDS);
            check(event != null, "no event, wanted " + type + " " + path);
            same(type + " " + path, event.getType() + " " + event.getPath());
        }

        void expectAmongOthers(EventType type, String path) throws InterruptedException {
            List<WatchedEvent> others = new ArrayList<>();
            while (true) {
                WatchedEvent event = queue.poll(WAIT_MS, TimeUnit.MILLISECONDS);
                check(event != null, "no " + type + " " + path + ", but " + others);
                if (event.getType() == type && event.getPath().equals(path)) {
                    return;
                }
                others.add(event);
            }
        }

        void expectSilence() throws InterruptedException {
            WatchedEvent event = queue.poll(SILENCE_MS, TimeUnit.MILLISECONDS);
            check(event == null, "an event too many: " + event);
        }
    }

    @Override
    public void close() throws Exception {
        for (ZooKeeper zk : clients) {
            zk.close(2000);
        }
    }
}
