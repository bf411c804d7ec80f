package dev.zkensemble.tests;

import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.Transaction;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooDefs.Perms;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;

/** Nodes through the Java client: create, read, change, delete, transactions, ACLs, sessions. */
public final class NodeCases extends Case {
    public NodeCases(String hosts, String name) {
        super(hosts, name);
    }

    public void createReadChangeDelete() throws Exception {
        ZooKeeper zk = connect();
        Stat made = new Stat();
        same(base, zk.create(base, bytes("1"), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT, made));
        Stat read = new Stat();
        same("1", text(zk.getData(base, false, read)));
        same(made, read);
        same(1, zk.setData(base, bytes("2"), 0).getVersion());
        fails(Code.BADVERSION, () -> zk.setData(base, bytes("3"), 0));
        fails(Code.NODEEXISTS, () -> make(zk, base, CreateMode.PERSISTENT));
        zk.delete(base, 1);
        same(null, zk.exists(base, false));
        fails(Code.NONODE, () -> zk.getData(base, false, null));
    }

    public void emptyAndNullDataAreToldApart() throws Exception {
        ZooKeeper zk = connect();
        zk.create(base, null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        same(null, zk.getData(base, false, null));
        zk.setData(base, new byte[0], -1);
        same(0, zk.getData(base, false, null).length);
    }

    public void childrenAreListedAndCounted() throws Exception {
        ZooKeeper zk = connect();
        own(zk);
        for (String name : List.of("a", "b", "c")) {
            make(zk, base + "/" + name, CreateMode.PERSISTENT);
        }
        make(zk, base + "/a/deep", CreateMode.PERSISTENT);
        Stat stat = new Stat();
        same(Set.of("a", "b", "c"), new HashSet<>(zk.getChildren(base, false, stat)));
        same(3, stat.getNumChildren());
        same(4, zk.getAllChildrenNumber(base));
        fails(Code.NOTEMPTY, () -> {
            zk.delete(base, -1);
            return "deleted";
        });
    }

    public void ephemeralNodesOfASessionAreListedAndEndWithIt() throws Exception {
        ZooKeeper zk = connect();
        ZooKeeper owner = connect();
        own(zk);
        make(owner, base + "/e1", CreateMode.EPHEMERAL);
        String second = make(owner, base + "/e", CreateMode.EPHEMERAL_SEQUENTIAL);
        same(Set.of(base + "/e1", second), new HashSet<>(owner.getEphemerals(base)));
        same(owner.getSessionId(), zk.exists(second, false).getEphemeralOwner());
        fails(Code.NOCHILDRENFOREPHEMERALS, () -> make(zk, second + "/x", CreateMode.PERSISTENT));
        owner.close();
        await("the nodes' end", () -> zk.getChildren(base, false).isEmpty());
    }

    public void sequenceNumbersGoUp() throws Exception {
        ZooKeeper zk = connect();
        own(zk);
        for (int n = 0; n < 3; n++) {
            same(String.format("%s/s-%010d", base, n), make(zk, base + "/s-", CreateMode.PERSISTENT_SEQUENTIAL));
        }
    }

    public void aTransactionIsAllOrNothing() throws Exception {
        ZooKeeper zk = connect();
        own(zk);
        Transaction good = zk.transaction();
        good.create(base + "/a", bytes("1"), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        good.setData(base + "/a", bytes("2"), 0);
        good.check(base + "/a", 1);
        good.delete(base + "/a", 1);
        good.create(base + "/b", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        List<OpResult> results = good.commit();
        same(5, results.size());
        same(1, ((OpResult.SetDataResult) results.get(1)).getStat().getVersion());
        same(List.of("b"), zk.getChildren(base, false));
        try {
            zk.multi(Arrays.asList(
                    Op.create(base + "/c", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT),
                    Op.check(base, 99),
                    Op.delete(base + "/b", -1)));
            throw new AssertionError("a transaction with a failing check went through");
        } catch (KeeperException e) {
            same(Code.BADVERSION, e.code());
            List<OpResult> errors = e.getResults();
            same(0, ((OpResult.ErrorResult) errors.get(0)).getErr());
            same(Code.BADVERSION.intValue(), ((OpResult.ErrorResult) errors.get(1)).getErr());
            same(Code.RUNTIMEINCONSISTENCY.intValue(), ((OpResult.ErrorResult) errors.get(2)).getErr());
        }
        same(List.of("b"), zk.getChildren(base, false));
    }

    public void manyReadsInOneRequest() throws Exception {
        ZooKeeper zk = connect();
        own(zk);
        List<OpResult> results =
                zk.multi(List.of(Op.getData(base), Op.getChildren(base + "/none"), Op.getChildren(base)));
        same("base", text(((OpResult.GetDataResult) results.get(0)).getData()));
        same(Code.NONODE.intValue(), ((OpResult.ErrorResult) results.get(1)).getErr());
        same(Collections.emptyList(), ((OpResult.GetChildrenResult) results.get(2)).getChildren());
    }

    public void aContainerAndATtlNodeAreMadeAndLookPersistent() throws Exception {
        ZooKeeper zk = connect();
        own(zk);
        make(zk, base + "/container", CreateMode.CONTAINER);
        same(0L, zk.exists(base + "/container", false).getEphemeralOwner()); // its mark is not shown
        Stat stat = new Stat();
        zk.create(base + "/ttl", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_WITH_TTL, stat, 60_000);
        same(0L, zk.exists(base + "/ttl", false).getEphemeralOwner());
        String numbered = zk.create(
                base + "/t-", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL, stat, 60_000);
        same(base + "/t-0000000002", numbered);
    }

    public void anEmptiedContainerAndAnOldTtlNodeAreRemoved() throws Exception {
        ZooKeeper zk = connect();
        own(zk);
        make(zk, base + "/container", CreateMode.CONTAINER);
        make(zk, base + "/container/child", CreateMode.PERSISTENT);
        zk.create(base + "/ttl", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_WITH_TTL, new Stat(), 100);
        zk.delete(base + "/container/child", -1);
        await("both nodes' end", () -> zk.getChildren(base, false).isEmpty());
    }

    public void aDigestRuleKeepsOthersOut() throws Exception {
        ZooKeeper ann = connect();
        ann.addAuthInfo("digest", bytes("ann:secret"));
        ann.create(base, bytes("1"), Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
        ZooKeeper other = connect();
        fails(Code.NOAUTH, () -> other.getData(base, false, null));
        ann.setACL(base, Arrays.asList(new ACL(Perms.READ, Ids.ANYONE_ID_UNSAFE), new ACL(Perms.ALL, Ids.AUTH_IDS)), 0);
        same("1", text(other.getData(base, false, null)));
        fails(Code.NOAUTH, () -> other.setData(base, bytes("2"), -1));
        Stat stat = new Stat();
        same(2, ann.getACL(base, stat).size());
        same(1, stat.getAversion());
        fails(Code.INVALIDACL, () -> other.create(
                base + "-x", null, Arrays.asList(new ACL(Perms.ALL, new Id("nosuch", "x"))), CreateMode.PERSISTENT));
    }

    public void whoIAmIsToldWithEveryIdentity() throws Exception {
        ZooKeeper zk = connect();
        zk.addAuthInfo("digest", bytes("ann:secret"));
        Set<String> schemes = new HashSet<>();
        zk.whoAmI().forEach(info -> schemes.add(info.getAuthScheme() + " " + info.getUser()));
        same(Set.of("ip 127.0.0.1", "digest ann"), schemes);
    }

    public void asynchronousRequestsAreAnsweredInTheirOrder() throws Exception {
        ZooKeeper zk = connect();
        own(zk);
        int count = 500;
        CountDownLatch done = new CountDownLatch(2 * count);
        AtomicInteger next = new AtomicInteger();
        AtomicInteger wrong = new AtomicInteger();
        for (int n = 0; n < count; n++) {
            int number = n;
            zk.setData(base, bytes("v" + n), n, (code, path, context, stat) -> {
                if (code != 0 || stat.getVersion() != number + 1) {
                    wrong.incrementAndGet();
                }
                done.countDown();
            }, null);
            zk.getData(base, false, (code, path, context, data, stat) -> {
                if (next.getAndIncrement() != number || !text(data).equals("v" + number)) {
                    wrong.incrementAndGet();
                }
                done.countDown();
            }, null);
        }
        check(done.await(2 * WAIT_MS, TimeUnit.MILLISECONDS), done.getCount() + " answers are missing");
        same(0, wrong.get());
    }

    public void aSessionIsTakenUpByAnotherClientObject() throws Exception {
        ZooKeeper zk = connect();
        own(zk);
        make(zk, base + "/e", CreateMode.EPHEMERAL);
        CountDownLatch connected = new CountDownLatch(1);
        try (ZooKeeper second = new ZooKeeper(
                hosts, SESSION_TIMEOUT_MS, event -> connected.countDown(), zk.getSessionId(), zk.getSessionPasswd())) {
            check(connected.await(WAIT_MS, TimeUnit.MILLISECONDS), "not connected");
            same(zk.getSessionId(), second.getSessionId());
            same(zk.getSessionId(), second.exists(base + "/e", false).getEphemeralOwner());
        }
    }
}
