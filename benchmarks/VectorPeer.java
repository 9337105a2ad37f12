// The Java engine's own deletion vectors, measured in rounds that the caller asks for.
//
//     java VectorPeer            one round for each line on standard input: POSITIONS ROWS WIDTH BLOB
//
// POSITIONS is a file of ascending positions (int32, little-endian), ROWS the rows of the data file, WIDTH 32 or 64. The
// vector's bytes are written to BLOB. The answer is a line of numbers: nanoseconds of wall clock and of this thread's
// processor time, for adding, writing, reading, and asking for each row.
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Paths;
import org.apache.paimon.deletionvectors.Bitmap64DeletionVector;
import org.apache.paimon.deletionvectors.BitmapDeletionVector;
import org.apache.paimon.deletionvectors.DeletionVector;

public class VectorPeer {
    static final StringBuilder TIMES = new StringBuilder();
    static long wall, processor;

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            String[] words = line.split(" ");
            byte[] raw = Files.readAllBytes(Paths.get(words[0]));
            int[] positions = new int[raw.length / 4];
            ByteBuffer.wrap(raw).order(ByteOrder.LITTLE_ENDIAN).asIntBuffer().get(positions);
            int rows = Integer.parseInt(words[1]);
            boolean wide = words[2].equals("64");
            TIMES.setLength(0);
            begin();
            DeletionVector vector = wide ? new Bitmap64DeletionVector() : new BitmapDeletionVector();
            for (int position : positions) vector.delete(position);
            end();
            begin();
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            vector.serializeTo(new DataOutputStream(bytes));
            byte[] blob = bytes.toByteArray();
            end();
            long length = ByteBuffer.wrap(blob).getInt() + (wide ? 8L : 0L);
            begin();
            DeletionVector read = DeletionVector.read(new DataInputStream(new ByteArrayInputStream(blob)), length);
            end();
            begin();
            boolean[] deleted = new boolean[rows];
            for (int row = 0; row < rows; row++) deleted[row] = read.isDeleted(row);
            end();
            if (read.getCardinality() != positions.length || deleted[positions[0]] == false)
                throw new IllegalStateException("another vector was read");
            Files.write(Paths.get(words[3]), blob);
            answers.println(TIMES.toString().trim());
            answers.flush();
        }
    }

    static long processorTime() {
        return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
    }

    static void begin() {
        processor = processorTime();
        wall = System.nanoTime();
    }

    static void end() {
        long wallNow = System.nanoTime(), processorNow = processorTime();
        TIMES.append(wallNow - wall).append(' ').append(processorNow - processor).append(' ');
    }
}
