// Writes tree.txt: applies tree.script to the reference implementation's DataTree and prints, after each
// transaction, what it answered, which watches fired, and the tree's digest and sizes; at the end every node.
//
// How tree.txt was made, with Java 17 and Apache ZooKeeper 3.9.5 and its dependencies from Maven Central in lib/:
//   javac -cp 'lib/*' -d out TreeGolden.java
//   java -Dstdout.encoding=UTF-8 -Dzookeeper.extendedTypesEnabled=true -cp 'out:lib/*' org.apache.zookeeper.server.TreeGolden < tree.script > tree.txt
//
// Script lines:  <zxid> <time> <client> <op> <arguments>
//   create|create2 path data acl 0|1 parentCVersion     createTTL path data acl parentCVersion ttl
//   createContainer path data acl parentCVersion        delete|deleteContainer path
//   setData|reconfig path data version                  setACL path acl version
//   createSession timeout    closeSession null|path,... error code    check path version
//   multi op args ; op args ; ...
// or:            watch data|exists|child|persistent|recursive name path
// Data: "null", "empty" or text. ACLs: open, read, creator, none.
package org.apache.zookeeper.server;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.jute.BinaryOutputArchive;
import org.apache.jute.Record;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooDefs.OpCode;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;
import org.apache.zookeeper.txn.*;

public class TreeGolden {
    static final List<String> EVENTS = new ArrayList<>();
    static final Map<String, Watcher> WATCHERS = new HashMap<>();

    static Watcher watcher(String name) {
        return WATCHERS.computeIfAbsent(name, n -> e ->
            EVENTS.add("! " + n + " " + e.getType().getIntValue() + " " + e.getPath()));
    }

    static byte[] data(String text) {
        switch (text) {
        case "null": return null;
        case "empty": return new byte[0];
        default: return text.getBytes(StandardCharsets.UTF_8);
        }
    }

    static List<ACL> acl(String name) {
        switch (name) {
        case "open": return ZooDefs.Ids.OPEN_ACL_UNSAFE;
        case "read": return ZooDefs.Ids.READ_ACL_UNSAFE;
        case "creator": return Collections.singletonList(new ACL(31, new Id("digest", "user:hash")));
        case "none": return Collections.emptyList();
        default: throw new IllegalArgumentException(name);
        }
    }

    static int code(String op) {
        switch (op) {
        case "create": return OpCode.create;
        case "create2": return OpCode.create2;
        case "createTTL": return OpCode.createTTL;
        case "createContainer": return OpCode.createContainer;
        case "delete": return OpCode.delete;
        case "deleteContainer": return OpCode.deleteContainer;
        case "setData": return OpCode.setData;
        case "reconfig": return OpCode.reconfig;
        case "setACL": return OpCode.setACL;
        case "createSession": return OpCode.createSession;
        case "closeSession": return OpCode.closeSession;
        case "error": return OpCode.error;
        case "check": return OpCode.check;
        case "multi": return OpCode.multi;
        default: throw new IllegalArgumentException(op);
        }
    }

    static Record txn(String[] a) throws Exception {
        switch (a[0]) {
        case "create":
        case "create2":
            return new CreateTxn(a[1], data(a[2]), acl(a[3]), a[4].equals("1"), Integer.parseInt(a[5]));
        case "createTTL":
            return new CreateTTLTxn(a[1], data(a[2]), acl(a[3]), Integer.parseInt(a[4]), Long.parseLong(a[5]));
        case "createContainer":
            return new CreateContainerTxn(a[1], data(a[2]), acl(a[3]), Integer.parseInt(a[4]));
        case "delete":
        case "deleteContainer":
            return new DeleteTxn(a[1]);
        case "setData":
        case "reconfig":
            return new SetDataTxn(a[1], data(a[2]), Integer.parseInt(a[3]));
        case "setACL":
            return new SetACLTxn(a[1], acl(a[2]), Integer.parseInt(a[3]));
        case "createSession":
            return new CreateSessionTxn(Integer.parseInt(a[1]));
        case "closeSession":
            return a[1].equals("null") ? null : new CloseSessionTxn(new ArrayList<>(Arrays.asList(a[1].split(","))));
        case "error":
            return new ErrorTxn(Integer.parseInt(a[1]));
        case "check":
            return new CheckVersionTxn(a[1], Integer.parseInt(a[2]));
        case "multi":
            List<Txn> txns = new ArrayList<>();
            String all = String.join(" ", Arrays.copyOfRange(a, 1, a.length));
            for (String one : all.split(" ; ")) {
                String[] b = one.split(" ");
                ByteArrayOutputStream bytes = new ByteArrayOutputStream();
                txn(b).serialize(BinaryOutputArchive.getArchive(bytes), "txn");
                txns.add(new Txn(code(b[0]), bytes.toByteArray()));
            }
            return new MultiTxn(txns);
        default:
            throw new IllegalArgumentException(a[0]);
        }
    }

    static String stat(Stat s) {
        if (s == null) {
            return "-";
        }
        return s.getCzxid() + "," + s.getMzxid() + "," + s.getCtime() + "," + s.getMtime() + "," + s.getVersion() + ","
            + s.getCversion() + "," + s.getAversion() + "," + s.getEphemeralOwner() + "," + s.getDataLength() + ","
            + s.getNumChildren() + "," + s.getPzxid();
    }

    static String answer(DataTree.ProcessTxnResult rc) {
        if (rc.multiResult != null) {
            StringBuilder all = new StringBuilder("multi");
            for (DataTree.ProcessTxnResult sub : rc.multiResult) {
                all.append(" [").append(sub.type).append(' ').append(answer(sub)).append(']');
            }
            return all.toString();
        }
        boolean failed = rc.err != 0;
        boolean silent = rc.type == OpCode.delete || rc.type == OpCode.deleteContainer || rc.type == OpCode.check
            || rc.type == OpCode.setData || rc.type == OpCode.setACL || rc.type == OpCode.reconfig;
        String path = failed || silent || rc.path == null ? "-" : rc.path;
        return rc.err + " " + path + " " + (failed ? "-" : stat(rc.stat));
    }

    static void totals(DataTree tree) {
        System.out.println("= digest=" + tree.getTreeDigest() + " nodes=" + tree.getNodeCount()
            + " ephemerals=" + tree.getEphemeralsCount() + " size=" + tree.approximateDataSize()
            + " containers=" + tree.getContainers().size() + " ttls=" + tree.getTtls().size()
            + " watches=" + tree.getWatchCount());
    }

    static void dump(DataTree tree, String path) throws Exception {
        Stat stat = new Stat();
        byte[] bytes = tree.getData(path, stat, null);
        List<ACL> acl = tree.getACL(path, null);
        StringBuilder acls = new StringBuilder();
        for (ACL a : acl) {
            acls.append(a.getPerms()).append(':').append(a.getId().getScheme()).append(':').append(a.getId().getId());
        }
        String text = bytes == null ? "null" : bytes.length == 0 ? "empty" : new String(bytes, StandardCharsets.UTF_8);
        System.out.println("node " + path + " " + text + " [" + acls + "] " + stat(stat)
            + " below=" + tree.getAllChildrenNumber(path));
        List<String> children = tree.getChildren(path, null, null);
        Collections.sort(children);
        for (String child : children) {
            dump(tree, (path.equals("/") ? "" : path) + "/" + child);
        }
    }

    public static void main(String[] args) throws Exception {
        DataTree tree = new DataTree();
        totals(tree);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.isEmpty() || line.startsWith("#")) {
                continue;
            }
            System.out.println("> " + line);
            String[] a = line.split(" ");
            if (a[0].equals("watch")) {
                switch (a[1]) {
                case "data": tree.statNode(a[3], null); tree.getData(a[3], new Stat(), watcher(a[2])); break;
                case "exists": try { tree.statNode(a[3], watcher(a[2])); } catch (Exception e) { } break;
                case "child": tree.getChildren(a[3], null, watcher(a[2])); break;
                case "persistent": tree.addWatch(a[3], watcher(a[2]), 0); break;
                case "recursive": tree.addWatch(a[3], watcher(a[2]), 1); break;
                default: throw new IllegalArgumentException(a[1]);
                }
                continue;
            }
            String[] op = Arrays.copyOfRange(a, 3, a.length);
            TxnHeader header = new TxnHeader(Long.parseLong(a[2]), 1, Long.parseLong(a[0]), Long.parseLong(a[1]), code(op[0]));
            EVENTS.clear();
            DataTree.ProcessTxnResult rc = tree.processTxn(header, txn(op));
            System.out.println("< " + answer(rc));
            Collections.sort(EVENTS);
            EVENTS.forEach(System.out::println);
            totals(tree);
        }
        dump(tree, "/");
    }
}
