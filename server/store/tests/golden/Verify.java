import java.io.File;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.zookeeper.server.DataTree;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;

/** Loads a data directory with the real server's classes; every transaction's digest must match the tree. */
public class Verify {
    public static void main(String[] args) throws Exception {
        FileTxnSnapLog log = new FileTxnSnapLog(new File(args[0]), new File(args[0]));
        DataTree tree = new DataTree();
        ConcurrentHashMap<Long, Integer> sessions = new ConcurrentHashMap<>();
        int[] txns = {0};
        int[] mismatches = {0};
        tree.addDigestWatcher(zxid -> mismatches[0]++);
        long last = log.restore(tree, sessions, (header, txn, digest) -> txns[0]++);
        System.out.printf("last=0x%x nodes=%d sessions=%d replayed=%d mismatches=%d%n",
            last, tree.getNodeCount(), sessions.size(), txns[0], mismatches[0]);
        System.exit(mismatches[0] == 0 ? 0 : 1);
    }
}
