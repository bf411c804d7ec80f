package dev.zkensemble.tests;

import java.util.List;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.Watcher.WatcherType;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;

/** Every kind of watch through the Java client. */
public final class WatchCases extends Case {
    public WatchCases(String hosts, String name) {
        super(hosts, name);
    }

    public void aDataWatchFiresOnce() throws Exception {
        ZooKeeper zk = connect();
        ZooKeeper writer = connect();
        own(zk);
        Events events = new Events();
        zk.getData(base, events, null);
        writer.setData(base, bytes("1"), -1);
        writer.setData(base, bytes("2"), -1);
        events.expect(EventType.NodeDataChanged, base);
        events.expectSilence();
    }

    public void anExistsWatchFiresForCreationAndThenForDeletion() throws Exception {
        ZooKeeper zk = connect();
        ZooKeeper writer = connect();
        Events events = new Events();
        same(null, zk.exists(base, events));
        own(writer);
        events.expect(EventType.NodeCreated, base);
        zk.exists(base, events);
        writer.delete(base, -1);
        events.expect(EventType.NodeDeleted, base);
        events.expectSilence();
    }

    public void aChildWatchFiresForChildrenAlone() throws Exception {
        ZooKeeper zk = connect();
        ZooKeeper writer = connect();
        own(zk);
        Events events = new Events();
        zk.getChildren(base, events);
        writer.setData(base, bytes("1"), -1);
        make(writer, base + "/c", CreateMode.PERSISTENT);
        events.expect(EventType.NodeChildrenChanged, base);
        zk.getChildren(base + "/c", events);
        writer.delete(base + "/c", -1);
        events.expect(EventType.NodeDeleted, base + "/c");
        events.expectSilence();
    }

    public void aTransactionFiresEachOfItsWatches() throws Exception {
        ZooKeeper zk = connect();
        ZooKeeper writer = connect();
        own(zk);
        Events data = new Events();
        Events children = new Events();
        zk.getData(base, data, null);
        zk.getChildren(base, children);
        writer.multi(List.of(
                Op.setData(base, bytes("1"), -1),
                Op.create(base + "/c", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT)));
        data.expect(EventType.NodeDataChanged, base);
        children.expect(EventType.NodeChildrenChanged, base);
    }

    public void aPersistentWatchStays() throws Exception {
        ZooKeeper zk = connect();
        ZooKeeper writer = connect();
        Events events = new Events();
        zk.addWatch(base, events, AddWatchMode.PERSISTENT);
        own(writer);
        writer.setData(base, bytes("1"), -1);
        make(writer, base + "/c", CreateMode.PERSISTENT);
        make(writer, base + "/c/d", CreateMode.PERSISTENT);
        writer.setData(base, bytes("2"), -1);
        events.expect(EventType.NodeCreated, base);
        events.expect(EventType.NodeDataChanged, base);
        events.expect(EventType.NodeChildrenChanged, base);
        events.expect(EventType.NodeDataChanged, base);
        events.expectSilence();
    }

    public void aRecursiveWatchCoversTheSubtreeWithoutChildEvents() throws Exception {
        ZooKeeper zk = connect();
        ZooKeeper writer = connect();
        own(zk);
        Events events = new Events();
        zk.addWatch(base, events, AddWatchMode.PERSISTENT_RECURSIVE);
        make(writer, base + "/a", CreateMode.PERSISTENT);
        make(writer, base + "/a/b", CreateMode.PERSISTENT);
        writer.setData(base + "/a/b", bytes("1"), -1);
        writer.delete(base + "/a/b", -1);
        writer.setData(base, bytes("2"), -1);
        events.expect(EventType.NodeCreated, base + "/a");
        events.expect(EventType.NodeCreated, base + "/a/b");
        events.expect(EventType.NodeDataChanged, base + "/a/b");
        events.expect(EventType.NodeDeleted, base + "/a/b");
        events.expect(EventType.NodeDataChanged, base);
        events.expectSilence();
    }

    public void aRemovedWatchIsSilentAndAnUnknownOneIsAnError() throws Exception {
        ZooKeeper zk = connect();
        ZooKeeper writer = connect();
        own(zk);
        Events data = new Events();
        Events children = new Events();
        zk.getData(base, data, null);
        zk.getChildren(base, children);
        zk.removeWatches(base, data, WatcherType.Data, false);
        data.expect(EventType.DataWatchRemoved, base);
        writer.setData(base, bytes("1"), -1);
        data.expectSilence();
        make(writer, base + "/c", CreateMode.PERSISTENT);
        children.expect(EventType.NodeChildrenChanged, base);
        fails(Code.NOWATCHER, () -> {
            zk.removeWatches(base, new Events(), WatcherType.Any, false);
            return "removed";
        });
    }

    public void aPersistentWatchIsRemoved() throws Exception {
        ZooKeeper zk = connect();
        ZooKeeper writer = connect();
        own(zk);
        Events events = new Events();
        zk.addWatch(base, events, AddWatchMode.PERSISTENT_RECURSIVE);
        zk.removeAllWatches(base, WatcherType.Any, false);
        events.expect(EventType.PersistentWatchRemoved, base);
        make(writer, base + "/c", CreateMode.PERSISTENT);
        events.expectSilence();
    }

    public void theEventComesBeforeTheNewDataCanBeRead() throws Exception {
        ZooKeeper zk = connect();
        ZooKeeper writer = connect();
        own(zk);
        for (int n = 0; n < 50; n++) {
            StringBuffer seen = new StringBuffer();
            zk.getData(base, event -> seen.append("event "), null);
            String value = "v" + n;
            writer.setData(base, bytes(value), -1);
            // Callbacks run in the order in which their packets came.
            await("the new value", () -> {
                Object lock = new Object();
                String[] read = new String[1];
                synchronized (lock) {
                    zk.getData(base, false, (code, path, context, data, stat) -> {
                        synchronized (lock) {
                            read[0] = text(data);
                            if (read[0].equals(value)) {
                                seen.append("data");
                            }
                            lock.notifyAll();
                        }
                    }, null);
                    while (read[0] == null) {
                        lock.wait(WAIT_MS);
                    }
                }
                return read[0].equals(value);
            });
            same("event data", seen.toString());
        }
    }

    public void watchesOfEveryKindSurviveALostConnection() throws Exception {
        Tap tap = new Tap(hosts);
        try (tap) {
            ZooKeeper zk = connect("127.0.0.1:" + tap.port(), SESSION_TIMEOUT_MS, event -> {});
            ZooKeeper writer = connect();
            own(writer);
            Events data = new Events();
            Events children = new Events();
            Events exists = new Events();
            Events lasting = new Events();
            zk.getData(base, data, null);
            zk.getChildren(base, children);
            zk.exists(base + "/new", exists);
            zk.addWatch(base, lasting, AddWatchMode.PERSISTENT_RECURSIVE);
            tap.cut();
            writer.setData(base, bytes("meanwhile"), -1);
            make(writer, base + "/new", CreateMode.PERSISTENT);
            tap.mend();
            data.expect(EventType.NodeDataChanged, base);
            children.expect(EventType.NodeChildrenChanged, base);
            exists.expect(EventType.NodeCreated, base + "/new");
            writer.setData(base + "/new", bytes("1"), -1);
            // The client hands the catching-up events of the other watches to this one, too.
            lasting.expectAmongOthers(EventType.NodeDataChanged, base + "/new");
            data.expectSilence();
        }
    }
}
