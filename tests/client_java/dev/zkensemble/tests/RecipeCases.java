package dev.zkensemble.tests;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.CreateMode;

/** Curator's recipes: locks, elections, caches and counters on several clients. */
public final class RecipeCases extends Case {
    private static final int CLIENTS = 4;
    private final List<CuratorFramework> curators = new ArrayList<>();

    public RecipeCases(String hosts, String name) {
        super(hosts, name);
        for (int n = 0; n < CLIENTS; n++) {
            // Each client has one member of the ensemble as its first choice.
            CuratorFramework curator = CuratorFrameworkFactory.builder()
                    .connectString(hosts)
                    .sessionTimeoutMs(SESSION_TIMEOUT_MS)
                    .connectionTimeoutMs(WAIT_MS)
                    .retryPolicy(new ExponentialBackoffRetry(50, 10))
                    .build();
            curator.start();
            curators.add(curator);
        }
    }

    private interface Act {
        void on(CuratorFramework curator, int number) throws Exception;
    }

    private void inParallel(Act act) throws Exception {
        List<CompletableFuture<Void>> running = new ArrayList<>();
        for (int n = 0; n < CLIENTS; n++) {
            int number = n;
            running.add(CompletableFuture.runAsync(() -> {
                try {
                    act.on(curators.get(number), number);
                } catch (Exception e) {
                    throw new IllegalStateException(e);
                }
            }, command -> new Thread(command).start()));
        }
        for (CompletableFuture<Void> one : running) {
            one.get(6L * WAIT_MS, TimeUnit.MILLISECONDS);
        }
    }

    public void aMutexIsHeldByOneAtATime() throws Exception {
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger most = new AtomicInteger();
        inParallel((curator, number) -> {
            InterProcessMutex mutex = new InterProcessMutex(curator, base);
            for (int n = 0; n < 5; n++) {
                check(mutex.acquire(3 * WAIT_MS, TimeUnit.MILLISECONDS), "no lock");
                most.accumulateAndGet(inside.incrementAndGet(), Math::max);
                Thread.sleep(5);
                inside.decrementAndGet();
                mutex.release();
            }
        });
        same(1, most.get());
    }

    public void aReadWriteLockLetsReadersShare() throws Exception {
        InterProcessReadWriteLock first = new InterProcessReadWriteLock(curators.get(0), base);
        InterProcessReadWriteLock second = new InterProcessReadWriteLock(curators.get(1), base);
        first.readLock().acquire();
        check(second.readLock().acquire(WAIT_MS, TimeUnit.MILLISECONDS), "readers do not share");
        second.readLock().release();
        check(!second.writeLock().acquire(SILENCE_MS, TimeUnit.MILLISECONDS), "a writer got in beside a reader");
        first.readLock().release();
        check(second.writeLock().acquire(WAIT_MS, TimeUnit.MILLISECONDS), "no writer though no reader");
        second.writeLock().release();
    }

    public void aSemaphoreGivesOutItsLeases() throws Exception {
        InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(curators.get(0), base, 2);
        InterProcessSemaphoreV2 other = new InterProcessSemaphoreV2(curators.get(1), base, 2);
        Lease one = semaphore.acquire();
        Lease two = other.acquire();
        same(null, other.acquire(SILENCE_MS, TimeUnit.MILLISECONDS));
        semaphore.returnLease(one);
        Lease three = other.acquire(WAIT_MS, TimeUnit.MILLISECONDS);
        check(three != null, "no lease though one was returned");
        other.returnLease(two);
        other.returnLease(three);
    }

    public void aLeaderLatchHasOneLeaderAndASuccessor() throws Exception {
        List<LeaderLatch> latches = new ArrayList<>();
        for (CuratorFramework curator : curators) {
            LeaderLatch latch = new LeaderLatch(curator, base);
            latch.start();
            latches.add(latch);
        }
        while (!latches.isEmpty()) {
            await("a leader", () -> latches.stream().anyMatch(LeaderLatch::hasLeadership));
            same(1L, latches.stream().filter(LeaderLatch::hasLeadership).count());
            LeaderLatch leader = latches.stream().filter(LeaderLatch::hasLeadership).findFirst().orElseThrow();
            latches.remove(leader);
            leader.close();
        }
    }

    public void aLeaderSelectorLetsEachLeadInTurn() throws Exception {
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger most = new AtomicInteger();
        CountDownLatch led = new CountDownLatch(CLIENTS);
        List<LeaderSelector> selectors = new ArrayList<>();
        for (CuratorFramework curator : curators) {
            LeaderSelector selector = new LeaderSelector(curator, base, new LeaderSelectorListenerAdapter() {
                @Override
                public void takeLeadership(CuratorFramework client) throws Exception {
                    most.accumulateAndGet(inside.incrementAndGet(), Math::max);
                    Thread.sleep(20);
                    inside.decrementAndGet();
                    led.countDown();
                }
            });
            selector.start();
            selectors.add(selector);
        }
        check(led.await(3 * WAIT_MS, TimeUnit.MILLISECONDS), led.getCount() + " never led");
        selectors.forEach(LeaderSelector::close);
        same(1, most.get());
    }

    public void anAtomicNumberLosesNoAddition() throws Exception {
        inParallel((curator, number) -> {
            DistributedAtomicLong atomic =
                    new DistributedAtomicLong(curator, base, new ExponentialBackoffRetry(10, 20));
            for (int n = 0; n < 10; n++) {
                while (!atomic.increment().succeeded()) {
                    Thread.sleep(5);
                }
            }
        });
        curators.get(0).sync().forPath(base);
        long value = new DistributedAtomicLong(curators.get(0), base, new ExponentialBackoffRetry(10, 20))
                .get()
                .postValue();
        same(10L * CLIENTS, value);
    }

    public void aSharedCountIsSeenByAll() throws Exception {
        try (SharedCount first = new SharedCount(curators.get(0), base, 0);
                SharedCount second = new SharedCount(curators.get(1), base, 0)) {
            first.start();
            second.start();
            first.setCount(42);
            await("the other's count", () -> second.getCount() == 42);
        }
    }

    public void aDoubleBarrierLetsAllInAndOutTogether() throws Exception {
        AtomicInteger entered = new AtomicInteger();
        inParallel((curator, number) -> {
            DistributedDoubleBarrier barrier = new DistributedDoubleBarrier(curator, base, CLIENTS);
            check(barrier.enter(3 * WAIT_MS, TimeUnit.MILLISECONDS), "not in");
            entered.incrementAndGet();
            check(barrier.leave(3 * WAIT_MS, TimeUnit.MILLISECONDS), "not out");
            same(CLIENTS, entered.get());
        });
    }

    public void aCacheFollowsItsSubtreeByAPersistentWatch() throws Exception {
        List<String> created = Collections.synchronizedList(new ArrayList<>());
        List<String> deleted = Collections.synchronizedList(new ArrayList<>());
        curators.get(0).create().forPath(base);
        try (CuratorCache cache = CuratorCache.build(curators.get(0), base)) {
            cache.listenable().addListener(CuratorCacheListener.builder()
                    .forCreates(node -> created.add(node.getPath()))
                    .forDeletes(node -> deleted.add(node.getPath()))
                    .build());
            cache.start();
            CuratorFramework writer = curators.get(1);
            for (int n = 0; n < 20; n++) {
                writer.create().creatingParentsIfNeeded().forPath(base + "/n" + n + "/deep", bytes("x"));
            }
            writer.delete().forPath(base + "/n0/deep");
            await("41 nodes", () -> created.size() == 41);
            await("one deletion", () -> deleted.equals(List.of(base + "/n0/deep")));
            await("the data", () -> cache.get(base + "/n1/deep").isPresent());
        }
    }

    public void aPersistentNodeComesBackWhenItIsDeleted() throws Exception {
        try (PersistentNode node =
                new PersistentNode(curators.get(0), CreateMode.EPHEMERAL, false, base, bytes("here"))) {
            node.start();
            check(node.waitForInitialCreate(WAIT_MS, TimeUnit.MILLISECONDS), "not created");
            curators.get(1).sync().forPath(base);
            curators.get(1).delete().forPath(base);
            await("its return", () -> curators.get(2).checkExists().forPath(base) != null);
        }
    }

    @Override
    public void close() throws Exception {
        curators.forEach(CuratorFramework::close);
        super.close();
    }
}
