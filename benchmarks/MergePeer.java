// Writes tables with a primary key, compacts them, and scans them, through the Java engine's generic API.
//
//     java MergePeer THREADS          one line on standard input for each order:
//         create WAREHOUSE NAME BUCKETS HAS_VECTORS
//         write LOCATION COMMITS ROWS KEYS EACH|DRAWN
//         compact LOCATION FULL|MINOR
//         scan LOCATION THREADS
//
// A table is write-only, so each commit adds a run on level 0 to each bucket. EACH takes the keys below KEYS in turn, far
// apart, and DRAWN draws them. Of a compaction, threads take the next bucket, each with a writer of its own, whose cache
// of lookup files is new and empty, and one commit publishes all. A scan reads every column of every row.
//
// The answer is a line: 0, live data files, their bytes, nanoseconds of wall clock and of the process's CPU time; of a
// scan, rows, the sum of their ids, the sum of their customers, and the same times.
import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.util.*;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.manifest.BucketEntry;
import org.apache.paimon.manifest.ManifestEntry;
import org.apache.paimon.options.Options;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.types.DataTypes;

public class MergePeer {
    static final String[] STATES = {"open", "paid", "packed", "sent", "returned", "closed"};
    /** A prime number: its multiples visit every key below a count that it does not divide. */
    static final long STRIDE = 6_700_417L;

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        ExecutorService pool = Executors.newFixedThreadPool(Integer.parseInt(args[0]));
        String scratch = Files.createTempDirectory("merge-peer").toString();
        OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            String[] words = line.split(" ");
            long[] found = new long[3];
            FileStoreTable table = words[0].equals("create") ? null
                    : FileStoreTableFactory.create(LocalFileIO.create(), new Path(words[1]));
            long wall = System.nanoTime(), processor = system.getProcessCpuTime();
            switch (words[0]) {
                case "create":
                    create(words[1], words[2], words[3], words[4]);
                    break;
                case "write":
                    for (int at = 0, commits = Integer.parseInt(words[2]); at < commits; at++)
                        write(scratch, table, at, Long.parseLong(words[3]), Long.parseLong(words[4]), words[5]);
                    break;
                case "compact":
                    compact(pool, scratch, table, words[2].equals("FULL"));
                    break;
                default:
                    found = scan(pool, Integer.parseInt(words[2]), table);
            }
            long wallTook = System.nanoTime() - wall, processorTook = system.getProcessCpuTime() - processor;
            if (words[0].equals("write") || words[0].equals("compact"))
                for (ManifestEntry entry : table.store().newScan().plan().files()) {
                    found[1]++;
                    found[2] += entry.file().fileSize();
                }
            answers.println(found[0] + " " + found[1] + " " + found[2] + " " + wallTook + " " + processorTook);
            answers.flush();
        }
        pool.shutdown();
    }

    static void create(String warehouse, String name, String buckets, String hasVectors) throws Exception {
        Options options = new Options();
        options.set("warehouse", warehouse);
        try (Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(options))) {
            catalog.createDatabase("db", true);
            catalog.createTable(Identifier.create("db", name), Schema.newBuilder()
                    .column("id", DataTypes.BIGINT().notNull())
                    .column("customer", DataTypes.BIGINT())
                    .column("amount", DataTypes.DOUBLE())
                    .column("percent", DataTypes.INT())
                    .column("at", DataTypes.TIMESTAMP(6))
                    .column("name", DataTypes.STRING())
                    .column("state", DataTypes.STRING())
                    .primaryKey("id")
                    .option("bucket", buckets)
                    .option("deletion-vectors.enabled", hasVectors)
                    .option("write-only", "true")
                    .build(), false);
        }
    }

    static void write(String scratch, FileStoreTable table, int commit, long rows, long keys, String how)
            throws Exception {
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        SplittableRandom random = new SplittableRandom(table.snapshotManager().latestSnapshotId() == null
                ? 0 : table.snapshotManager().latestSnapshotId());
        try (IOManager io = IOManager.create(scratch);
                BatchTableWrite write = builder.newWrite();
                BatchTableCommit publish = builder.newCommit()) {
            write.withIOManager(io);
            for (long row = commit * rows, end = row + rows; row < end; row++) {
                long id = how.equals("EACH") ? row * STRIDE % keys : random.nextLong(keys);
                write.write(GenericRow.of(
                        id, random.nextLong(1_000_000), random.nextDouble() * 1000, random.nextInt(100),
                        Timestamp.fromMicros(1_700_000_000_000_000L + random.nextLong(1_000_000_000_000L)),
                        BinaryString.fromString("customer " + random.nextInt(200_000)),
                        BinaryString.fromString(STATES[random.nextInt(STATES.length)])));
            }
            publish.commit(write.prepareCommit());
        }
    }

    static void compact(ExecutorService pool, String scratch, FileStoreTable stated, boolean isFull) throws Exception {
        FileStoreTable table = stated.copy(Collections.singletonMap("write-only", "false"));
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        List<Future<List<CommitMessage>>> parts = new ArrayList<>();
        for (BucketEntry bucket : table.newSnapshotReader().bucketEntries())
            parts.add(pool.submit(() -> {
                try (IOManager io = IOManager.create(scratch); BatchTableWrite write = builder.newWrite()) {
                    write.withIOManager(io);
                    write.compact(bucket.partition(), bucket.bucket(), isFull);
                    return write.prepareCommit();
                }
            }));
        List<CommitMessage> messages = new ArrayList<>();
        for (Future<List<CommitMessage>> part : parts) messages.addAll(part.get());
        try (BatchTableCommit commit = builder.newCommit()) {
            commit.commit(messages);
        }
    }

    static long[] scan(ExecutorService pool, int threads, FileStoreTable stated) throws Exception {
        FileStoreTable table = stated.copy(Collections.singletonMap("source.split.target-size", "16 mb"));
        ReadBuilder builder = table.newReadBuilder();
        Queue<Split> splits = new ConcurrentLinkedQueue<>(builder.newScan().plan().splits());
        InternalRow.FieldGetter[] getters = new InternalRow.FieldGetter[table.rowType().getFieldCount()];
        for (int i = 0; i < getters.length; i++)
            getters[i] = InternalRow.createFieldGetter(table.rowType().getTypeAt(i), i);
        List<Future<long[]>> parts = new ArrayList<>();
        for (int thread = 0; thread < threads; thread++)
            parts.add(pool.submit(() -> {
                long[] sums = new long[3];
                for (Split split; (split = splits.poll()) != null; )
                    builder.newRead().createReader(split).forEachRemaining(row -> {
                        for (InternalRow.FieldGetter getter : getters)
                            if (getter.getFieldOrNull(row) == null) throw new IllegalStateException("a null");
                        sums[0]++;
                        sums[1] += row.getLong(0);
                        sums[2] += row.getLong(1);
                    });
                return sums;
            }));
        long[] all = new long[3];
        for (Future<long[]> part : parts) for (int i = 0; i < 3; i++) all[i] += part.get()[i];
        return all;
    }
}
