// Compacts append tables, and scans them, through the Java engine's generic API.
//
//     java CompactPeer THREADS [NAME=VALUE ...]      options of S3; one line on standard input for each order:
//         compact LOCATION
//         scan LOCATION THREADS
//
// A compaction lets the engine's coordinator pick until it has no more tasks; threads run them, and one commit publishes
// their messages. The answer is a line: tasks, live data files afterwards, their bytes, nanoseconds of wall clock and of
// the process's CPU time. A scan reads every column of every row: rows, the sum of their ids, 0, and the same times.
import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.util.*;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.paimon.append.AppendCompactCoordinator;
import org.apache.paimon.append.AppendCompactTask;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.fs.FileIO;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.manifest.ManifestEntry;
import org.apache.paimon.operation.BaseAppendFileStoreWrite;
import org.apache.paimon.options.Options;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.source.EndOfScanException;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;

public class CompactPeer {
    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        int threads = Integer.parseInt(args[0]);
        Options options = new Options();
        for (int i = 1; i < args.length; i++) {
            String[] pair = args[i].split("=", 2);
            options.set(pair[0], pair[1]);
        }
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            String[] words = line.split(" ");
            Path path = new Path(words[1]);
            FileIO files = words[1].startsWith("s3://")
                    ? FileIO.get(path, CatalogContext.create(options))
                    : LocalFileIO.create();
            FileStoreTable table = FileStoreTableFactory.create(files, path);
            long wall = System.nanoTime(), processor = system.getProcessCpuTime();
            long[] found = words[0].equals("compact") ? compact(pool, table) : scan(pool, Integer.parseInt(words[2]), table);
            long wallTook = System.nanoTime() - wall, processorTook = system.getProcessCpuTime() - processor;
            if (words[0].equals("compact"))
                for (ManifestEntry entry : table.store().newScan().plan().files()) {
                    found[1]++;
                    found[2] += entry.file().fileSize();
                }
            answers.println(found[0] + " " + found[1] + " " + found[2] + " " + wallTook + " " + processorTook);
            answers.flush();
        }
        pool.shutdown();
    }

    static long[] compact(ExecutorService pool, FileStoreTable stated) throws Exception {
        FileStoreTable table = stated.copy(Collections.singletonMap("write-only", "false"));
        AppendCompactCoordinator coordinator = new AppendCompactCoordinator(table, false);
        List<AppendCompactTask> tasks = new ArrayList<>();
        try {
            for (List<AppendCompactTask> more; !(more = coordinator.run()).isEmpty(); ) tasks.addAll(more);
        } catch (EndOfScanException e) {
            // the coordinator's way to say that it has seen every file
        }
        List<Future<CommitMessage>> parts = new ArrayList<>();
        for (AppendCompactTask task : tasks)
            parts.add(pool.submit(() -> {
                BaseAppendFileStoreWrite write = (BaseAppendFileStoreWrite) (Object) table.store().newWrite("bench");
                try {
                    return task.doCompact(table, write);
                } finally {
                    write.close();
                }
            }));
        List<CommitMessage> messages = new ArrayList<>();
        for (Future<CommitMessage> part : parts) messages.add(part.get());
        try (BatchTableCommit commit = table.newBatchWriteBuilder().newCommit()) {
            commit.commit(messages);
        }
        return new long[] {tasks.size(), 0, 0};
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
                            if (getter.getFieldOrNull(row) == null) sums[2]++;
                        sums[0]++;
                        sums[1] += row.getLong(0);
                    });
                return sums;
            }));
        long[] all = new long[3];
        for (Future<long[]> part : parts) for (int i = 0; i < 3; i++) all[i] += part.get()[i];
        return all;
    }
}
