// Commands of the driver about deletion vectors: index files that the engine writes and reads.
import java.lang.reflect.Field;
import java.util.*;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.deletionvectors.Bitmap64DeletionVector;
import org.apache.paimon.deletionvectors.BitmapDeletionVector;
import org.apache.paimon.deletionvectors.DeletionVector;
import org.apache.paimon.deletionvectors.DeletionVectorsIndexFile;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.index.DeletionVectorMeta;
import org.apache.paimon.index.IndexFileMeta;
import org.apache.paimon.index.IndexPathFactory;
import org.apache.paimon.manifest.IndexManifestEntry;
import org.apache.paimon.options.MemorySize;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.source.DeletionFile;
import org.apache.paimon.utils.OptimizedRoaringBitmap64;

class VectorCommands {
    static void register(Map<String, EngineDriver.Command> commands) {
        commands.put("dv_write", VectorCommands::write);
        commands.put("dv_read", VectorCommands::read);
        commands.put("dv_dump", VectorCommands::dump);
    }

    /**
     * folder, vectors [[data file, [position...]]...], bitmap64, target (bytes; without it one file): writes index files
     * with these vectors in this order. Returns [[name, bytes, vectors, [[data file, offset, length, cardinality]...]]...].
     */
    static Object write(JsonNode c) throws Exception {
        boolean wide = EngineDriver.flag(c, "bitmap64");
        Map<String, DeletionVector> vectors = new LinkedHashMap<>();
        for (JsonNode each : c.get("vectors")) {
            DeletionVector vector = wide ? new Bitmap64DeletionVector() : new BitmapDeletionVector();
            for (JsonNode position : each.get(1)) vector.delete(position.asLong());
            vectors.put(each.get(0).asText(), vector);
        }
        DeletionVectorsIndexFile file = file(c.get("folder").asText(), wide, EngineDriver.integer(c, "target", 1));
        List<IndexFileMeta> metas = c.hasNonNull("target")
                ? file.writeWithRolling(vectors)
                : Collections.singletonList(file.writeSingleFile(vectors));
        List<Object> found = new ArrayList<>();
        for (IndexFileMeta meta : metas)
            found.add(Arrays.asList(meta.fileName(), meta.fileSize(), meta.rowCount(), ranges(meta)));
        return found;
    }

    /** folder, name, ranges [[data file, offset, length, cardinality]...]: what both readers find; see `found`. */
    static Object read(JsonNode c) throws Exception {
        LinkedHashMap<String, DeletionVectorMeta> ranges = new LinkedHashMap<>();
        for (JsonNode r : c.get("ranges")) {
            Long cardinality = r.get(3).isNull() ? null : (Long) r.get(3).asLong();
            ranges.put(r.get(0).asText(),
                    new DeletionVectorMeta(r.get(0).asText(), r.get(1).asInt(), r.get(2).asInt(), cardinality));
        }
        String folder = c.get("folder").asText(), name = c.get("name").asText();
        IndexFileMeta meta = new IndexFileMeta(
                DeletionVectorsIndexFile.DELETION_VECTORS_INDEX, name, 0, ranges.size(), ranges, null);
        return found(file(folder, false, 1), meta, new Path(folder, name));
    }

    /** Of every index file of the latest snapshot: [[name, ranges, what both readers find]...]. */
    static Object dump(JsonNode c) throws Exception {
        FileStoreTable table = EngineDriver.table(c);
        List<Object> all = new ArrayList<>();
        for (IndexManifestEntry e : table.store().newIndexFileHandler().scan(
                table.snapshotManager().latestSnapshot(), DeletionVectorsIndexFile.DELETION_VECTORS_INDEX)) {
            BinaryRow partition = e.partition();
            DeletionVectorsIndexFile file = table.store().newIndexFileHandler().dvIndex(partition, e.bucket());
            Path path = table.store().newIndexFileHandler().filePath(e);
            all.add(Arrays.asList(
                    path.toUri().getPath(), ranges(e.indexFile()), found(file, e.indexFile(), path)));
        }
        return all;
    }

    /** {sequential: {data file: [position...]}, seeking: the same}. A reader that throws has the text of its exception. */
    static Map<String, Object> found(DeletionVectorsIndexFile file, IndexFileMeta meta, Path path) {
        Map<String, Object> result = new LinkedHashMap<>();
        try {
            Map<String, Object> all = new TreeMap<>();
            for (Map.Entry<String, DeletionVector> e : file.readAllDeletionVectors(meta).entrySet())
                all.put(e.getKey(), positions(e.getValue()));
            result.put("sequential", all);
        } catch (Exception e) {
            result.put("sequential", e.toString());
        }
        try {
            Map<String, Object> each = new TreeMap<>();
            for (DeletionVectorMeta m : stated(meta))
                each.put(m.dataFileName(), positions(file.readDeletionVector(
                        new DeletionFile(path.toString(), m.offset(), m.length(), m.cardinality()))));
            result.put("seeking", each);
        } catch (Exception e) {
            result.put("seeking", e.toString());
        }
        return result;
    }

    /** An index manifest that another writer wrote anew may say null where no vectors are. */
    static Collection<DeletionVectorMeta> stated(IndexFileMeta meta) {
        return meta.dvRanges() == null ? Collections.emptyList() : meta.dvRanges().values();
    }

    static List<Object> ranges(IndexFileMeta meta) {
        List<Object> ranges = new ArrayList<>();
        for (DeletionVectorMeta m : stated(meta))
            ranges.add(Arrays.asList(m.dataFileName(), m.offset(), m.length(), m.cardinality()));
        return ranges;
    }

    static List<Long> positions(DeletionVector vector) throws Exception {
        List<Long> positions = new ArrayList<>();
        if (vector instanceof BitmapDeletionVector) {
            ((BitmapDeletionVector) vector).get().iterator().forEachRemaining(p -> positions.add((long) p));
        } else {
            Field field = Bitmap64DeletionVector.class.getDeclaredField("roaringBitmap"); // nothing else lists them
            field.setAccessible(true);
            ((OptimizedRoaringBitmap64) field.get(vector)).forEach(positions::add);
        }
        return positions;
    }

    static DeletionVectorsIndexFile file(String folder, boolean wide, int target) {
        IndexPathFactory paths = new IndexPathFactory() {
            public Path toPath(String name) {
                return new Path(folder, name);
            }

            public Path newPath() {
                return new Path(folder, "index-" + UUID.randomUUID() + "-0");
            }

            public boolean isExternalPath() {
                return false;
            }
        };
        return new DeletionVectorsIndexFile(LocalFileIO.create(), paths, MemorySize.ofBytes(target), wide);
    }
}
