// Reads a whole table through the Java engine's generic API, as often as the caller asks for.
//
//     java ReadPeer LOCATION THREADS            one read for each line on standard input
//
// Each thread takes the next split and asks for every field of every row. The answer is a line: rows, the sum of the
// column `id`, nanoseconds of wall clock and of the process's CPU time.
import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.types.RowType;

public class ReadPeer {
    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        int threads = Integer.parseInt(args[1]);
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        while (lines.readLine() != null) {
            long wall = System.nanoTime(), processor = system.getProcessCpuTime();
            FileStoreTable table = FileStoreTableFactory.create(LocalFileIO.create(), new Path(args[0]));
            // Splits of one or two files: both threads are busy to the end.
            table = table.copy(Collections.singletonMap("source.split.target-size", "16 mb"));
            RowType type = table.rowType();
            InternalRow.FieldGetter[] getters = new InternalRow.FieldGetter[type.getFieldCount()];
            for (int at = 0; at < getters.length; at++)
                getters[at] = InternalRow.createFieldGetter(type.getTypeAt(at), at);
            int id = type.getFieldIndex("id");
            ReadBuilder builder = table.newReadBuilder();
            Queue<Split> splits = new ConcurrentLinkedQueue<>(builder.newScan().plan().splits());
            List<Future<long[]>> parts = new ArrayList<>();
            for (int thread = 0; thread < threads; thread++)
                parts.add(pool.submit(() -> {
                    long[] found = new long[3];
                    for (Split split; (split = splits.poll()) != null; ) {
                        try (RecordReader<InternalRow> reader = builder.newRead().createReader(split)) {
                            reader.forEachRemaining(row -> {
                                for (InternalRow.FieldGetter getter : getters)
                                    if (getter.getFieldOrNull(row) == null) found[2]++;
                                found[0]++;
                                found[1] += row.getLong(id);
                            });
                        }
                    }
                    return found;
                }));
            long rows = 0, sum = 0;
            for (Future<long[]> part : parts) {
                rows += part.get()[0];
                sum += part.get()[1];
            }
            answers.println(rows + " " + sum + " " + (System.nanoTime() - wall) + " "
                    + (system.getProcessCpuTime() - processor));
            answers.flush();
        }
        pool.shutdown();
    }
}
