// Writes manifests with the Java engine's own writer: COUNT entries with statistics of every column, and no data files.
//
//     java ManifestWriter TABLE_PATH COUNT        prints the names of the manifests, one a line
//
// The table has to exist, with one partition column of type STRING. Values are drawn with a fixed seed.
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.UUID;
import org.apache.paimon.data.BinaryArray;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.BinaryRowWriter;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.serializer.InternalRowSerializer;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.manifest.FileKind;
import org.apache.paimon.manifest.FileSource;
import org.apache.paimon.manifest.ManifestEntry;
import org.apache.paimon.manifest.ManifestFileMeta;
import org.apache.paimon.stats.SimpleStats;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.RowType;

public class ManifestWriter {
    public static void main(String[] args) throws Exception {
        FileStoreTable table = FileStoreTableFactory.create(LocalFileIO.create(), new Path(args[0]));
        int count = Integer.parseInt(args[1]);
        RowType type = table.rowType();
        InternalRowSerializer serializer = new InternalRowSerializer(type);
        Random random = new Random(7);
        List<ManifestEntry> entries = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            String day = String.format("2024-%02d-%02d", 1 + i % 12, 1 + i / 12 % 28);
            long rows = 1000 + random.nextInt(100_000);
            long first = (long) i * 100_000;
            String name = "data-" + new UUID(random.nextLong(), random.nextLong()) + "-" + i % 8 + ".parquet";
            List<String> extra = i % 50 == 0 ? Collections.singletonList(name + ".index") : Collections.emptyList();
            DataFileMeta file = DataFileMeta.forAppend(
                    name, rows * (60 + random.nextInt(20)), rows, statistics(type, serializer, day, random), first,
                    first + rows - 1, 0L, extra, null, i % 3 == 0 ? FileSource.COMPACT : FileSource.APPEND, null, null,
                    null, null);
            FileKind kind = i % 10 == 9 ? FileKind.DELETE : FileKind.ADD;
            entries.add(ManifestEntry.create(kind, partition(day), 0, -1, file));
        }
        for (ManifestFileMeta meta : table.store().manifestFileFactory().create().write(entries))
            System.out.println(meta.fileName());
    }

    static BinaryRow partition(String day) {
        BinaryRow row = new BinaryRow(1);
        BinaryRowWriter writer = new BinaryRowWriter(row);
        writer.writeString(0, BinaryString.fromString(day));
        writer.complete();
        return row;
    }

    static SimpleStats statistics(RowType type, InternalRowSerializer serializer, String day, Random random) {
        GenericRow low = new GenericRow(type.getFieldCount()), high = new GenericRow(type.getFieldCount());
        Long[] nulls = new Long[type.getFieldCount()];
        for (int i = 0; i < type.getFieldCount(); i++) {
            long base = random.nextInt(1_000_000);
            low.setField(i, value(type.getTypeAt(i), base, day));
            high.setField(i, value(type.getTypeAt(i), base + 1 + random.nextInt(1_000_000), day));
            nulls[i] = (long) random.nextInt(100);
        }
        return new SimpleStats(
                serializer.toBinaryRow(low).copy(), serializer.toBinaryRow(high).copy(),
                BinaryArray.fromLongArray(nulls));
    }

    static Object value(DataType type, long number, String day) {
        switch (type.getTypeRoot()) {
            case INTEGER: return (int) number;
            case BIGINT: return number * 1_000_003;
            case DOUBLE: return number / 7.0;
            case VARCHAR: return BinaryString.fromString(day + "/" + Long.toString(number * 7919, 36));
            default: throw new IllegalArgumentException("type " + type);
        }
    }
}
