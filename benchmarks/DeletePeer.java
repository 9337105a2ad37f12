// Writes append tables, and deletes rows of them by deletion vectors, through the Java engine's generic API.
//
//     java DeletePeer THREADS            one line on standard input for each order:
//         write WAREHOUSE NAME FILES ROWS
//         delete LOCATION COLUMN LOW HIGH
//
// A table has so many files, each with so many rows. `id` counts its rows from 0, and `percent` is drawn from 0 to 99.
//
// Of a delete, the rows of which COLUMN (INT or BIGINT) lies between LOW and HIGH go. The engine plans with this
// predicate, threads take the next split and read that column alone, with the positions of the rows; the engine's
// maintainer merges and writes the vectors of each partition, and one commit publishes them. The answer is a line: rows,
// data files that were read, nanoseconds of wall clock and of the process's CPU time.
import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.util.*;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.deletionvectors.Bitmap64DeletionVector;
import org.apache.paimon.deletionvectors.BitmapDeletionVector;
import org.apache.paimon.deletionvectors.DeletionVector;
import org.apache.paimon.deletionvectors.append.AppendDeleteFileMaintainer;
import org.apache.paimon.deletionvectors.append.BaseAppendDeleteFileMaintainer;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.index.IndexFileMeta;
import org.apache.paimon.io.CompactIncrement;
import org.apache.paimon.io.DataIncrement;
import org.apache.paimon.manifest.FileKind;
import org.apache.paimon.manifest.IndexManifestEntry;
import org.apache.paimon.options.Options;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.reader.FileRecordIterator;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.CommitMessageImpl;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.types.DataTypeRoot;
import org.apache.paimon.types.DataTypes;

public class DeletePeer {
    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        int threads = Integer.parseInt(args[0]);
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            String[] words = line.split(" ");
            long wall = System.nanoTime(), processor = system.getProcessCpuTime();
            long[] found = words[0].equals("write")
                    ? write(words[1], words[2], Integer.parseInt(words[3]), Integer.parseInt(words[4]))
                    : delete(pool, threads, words[1], words[2], Long.parseLong(words[3]), Long.parseLong(words[4]));
            answers.println(found[0] + " " + found[1] + " " + (System.nanoTime() - wall) + " "
                    + (system.getProcessCpuTime() - processor));
            answers.flush();
        }
        pool.shutdown();
    }

    static long[] write(String warehouse, String name, int files, int rows) throws Exception {
        Options options = new Options();
        options.set("warehouse", warehouse);
        FileStoreTable table;
        try (Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(options))) {
            catalog.createDatabase("db", true);
            catalog.createTable(Identifier.create("db", name), Schema.newBuilder()
                    .column("id", DataTypes.BIGINT())
                    .column("customer", DataTypes.BIGINT())
                    .column("amount", DataTypes.DOUBLE())
                    .column("percent", DataTypes.INT())
                    .column("at", DataTypes.TIMESTAMP(6))
                    .column("name", DataTypes.STRING())
                    .option("bucket", "-1")
                    .option("deletion-vectors.enabled", "true")
                    .option("write-only", "true")
                    .build(), false);
            table = (FileStoreTable) catalog.getTable(Identifier.create("db", name));
        }
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        List<CommitMessage> messages = new ArrayList<>();
        SplittableRandom random = new SplittableRandom(files);
        long id = 0;
        for (int file = 0; file < files; file++) {
            try (BatchTableWrite write = builder.newWrite()) {
                for (int row = 0; row < rows; row++, id++)
                    write.write(GenericRow.of(
                            id, random.nextLong(1_000_000), random.nextDouble() * 1000, random.nextInt(100),
                            Timestamp.fromMicros(1_700_000_000_000_000L + id * 1000),
                            BinaryString.fromString("customer " + random.nextInt(200_000))));
                messages.addAll(write.prepareCommit());
            }
        }
        try (BatchTableCommit commit = builder.newCommit()) {
            commit.commit(messages);
        }
        return new long[] {id, files};
    }

    static long[] delete(ExecutorService pool, int threads, String location, String column, long low, long high)
            throws Exception {
        FileStoreTable table = FileStoreTableFactory.create(LocalFileIO.create(), new Path(location));
        // Splits of one or two files: both threads are busy to the end.
        table = table.copy(Collections.singletonMap("source.split.target-size", "16 mb"));
        int at = table.rowType().getFieldIndex(column);
        boolean isInt = table.rowType().getTypeAt(at).getTypeRoot() == DataTypeRoot.INTEGER;
        Predicate between = isInt
                ? new PredicateBuilder(table.rowType()).between(at, (int) low, (int) high)
                : new PredicateBuilder(table.rowType()).between(at, low, high);
        ReadBuilder builder = table.newReadBuilder().withFilter(between).withProjection(new int[] {at});
        boolean wide = table.coreOptions().deletionVectorBitmap64();
        Queue<Split> splits = new ConcurrentLinkedQueue<>(builder.newScan().plan().splits());
        Map<BinaryRow, Map<String, DeletionVector>> vectors = new ConcurrentHashMap<>();
        List<Future<long[]>> parts = new ArrayList<>();
        for (int thread = 0; thread < threads; thread++)
            parts.add(pool.submit(() -> {
                long[] found = new long[2];
                for (Split split; (split = splits.poll()) != null; ) {
                    DataSplit data = (DataSplit) split;
                    found[1] += data.dataFiles().size();
                    Map<String, DeletionVector> of = vectors.computeIfAbsent(
                            data.partition(), key -> new ConcurrentHashMap<>());
                    found[0] += match(builder, split, isInt, low, high, wide, of);
                }
                return found;
            }));
        long[] all = new long[2];
        for (Future<long[]> part : parts) for (int i = 0; i < 2; i++) all[i] += part.get()[i];
        commit(table, vectors);
        return all;
    }

    /** Collect the positions of a split's rows that match and that no vector has deleted. Returns how many. */
    static long match(
            ReadBuilder builder, Split split, boolean isInt, long low, long high, boolean wide,
            Map<String, DeletionVector> vectors) throws Exception {
        long rows = 0;
        try (RecordReader<InternalRow> reader = builder.newRead().createReader(split)) {
            for (RecordReader.RecordIterator<InternalRow> batch; (batch = reader.readBatch()) != null; ) {
                FileRecordIterator<InternalRow> positioned = (FileRecordIterator<InternalRow>) batch;
                DeletionVector vector = null;
                for (InternalRow row; (row = positioned.next()) != null; ) {
                    // For each row, or the next batch begins where somebody asked last (seen with 1.4.2).
                    long position = positioned.returnedPosition();
                    if (row.isNullAt(0)) continue;
                    long value = isInt ? row.getInt(0) : row.getLong(0);
                    if (value < low || value > high) continue;
                    if (vector == null)
                        vector = vectors.computeIfAbsent(positioned.filePath().getName(), key -> newVector(wide));
                    vector.delete(position);
                    rows++;
                }
                batch.releaseBatch();
            }
        }
        return rows;
    }

    static DeletionVector newVector(boolean wide) {
        return wide ? new Bitmap64DeletionVector() : new BitmapDeletionVector();
    }

    static void commit(FileStoreTable table, Map<BinaryRow, Map<String, DeletionVector>> vectors) throws Exception {
        List<CommitMessage> messages = new ArrayList<>();
        for (Map.Entry<BinaryRow, Map<String, DeletionVector>> partition : vectors.entrySet()) {
            AppendDeleteFileMaintainer maintainer = BaseAppendDeleteFileMaintainer.forUnawareAppend(
                    table.store().newIndexFileHandler(), table.snapshotManager().latestSnapshot(), partition.getKey());
            for (Map.Entry<String, DeletionVector> each : partition.getValue().entrySet()) {
                DeletionVector former = maintainer.getDeletionVector(each.getKey());
                if (former != null) each.getValue().merge(former);
                maintainer.notifyNewDeletionVector(each.getKey(), each.getValue());
            }
            List<IndexFileMeta> added = new ArrayList<>(), removed = new ArrayList<>();
            for (IndexManifestEntry entry : maintainer.persist())
                (entry.kind() == FileKind.ADD ? added : removed).add(entry.indexFile());
            DataIncrement increment = new DataIncrement(
                    Collections.emptyList(), Collections.emptyList(), Collections.emptyList(), added, removed);
            messages.add(new CommitMessageImpl(
                    partition.getKey(), 0, table.coreOptions().bucket(), increment, CompactIncrement.emptyIncrement()));
        }
        try (BatchTableCommit commit = table.newBatchWriteBuilder().newCommit()) {
            commit.commit(messages);
        }
    }
}
