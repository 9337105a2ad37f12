// Commands of the driver about the levels of a bucket: the order of keys, and what the engine compacts of files that exist only as metadata.
import java.lang.reflect.Constructor;
import java.util.*;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.paimon.CoreOptions;
import org.apache.paimon.CoreOptions.MergeEngine;
import org.apache.paimon.compact.CompactResult;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.deletionvectors.BitmapDeletionVector;
import org.apache.paimon.deletionvectors.BucketedDvMaintainer;
import org.apache.paimon.deletionvectors.DeletionVector;
import org.apache.paimon.deletionvectors.DeletionVectorsIndexFile;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.manifest.FileSource;
import org.apache.paimon.mergetree.LevelSortedRun;
import org.apache.paimon.mergetree.Levels;
import org.apache.paimon.mergetree.SortedRun;
import org.apache.paimon.mergetree.compact.*;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.stats.SimpleStats;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeJsonParser;
import org.apache.paimon.types.RowType;
import org.apache.paimon.utils.KeyComparatorSupplier;
import org.apache.paimon.utils.SerializationUtils;

class LevelCommands {
    static final Comparator<InternalRow> KEYS = Comparator.comparingInt(row -> row.getInt(0));

    static void register(Map<String, EngineDriver.Command> commands) {
        commands.put("levels_compact", LevelCommands::compact);
        commands.put("keys_sort", LevelCommands::sort);
    }

    /**
     * files [[name, level, low, high, bytes, first and last sequence number, created ms, deletes, vector]...], options,
     * full, forced, vectors: what a compaction of this bucket does.
     * Returns {runs: [[name...]...], acts: [["rewrite", level, drops deletes, [[[name...] of a run...] of a section...]]
     * or ["upgrade", level, name, strategy]...]}.
     */
    static Object compact(JsonNode c) throws Exception {
        List<DataFileMeta> files = new ArrayList<>();
        Map<String, DeletionVector> hidden = new HashMap<>();
        for (JsonNode f : c.get("files")) {
            files.add(file(f));
            DeletionVector vector = new BitmapDeletionVector();
            vector.delete(0);
            if (f.get(9).asBoolean()) hidden.put(f.get(0).asText(), vector);
        }
        Map<String, String> texts = new HashMap<>();
        c.get("options").fields().forEachRemaining(each -> texts.put(each.getKey(), each.getValue().asText()));
        CoreOptions options = CoreOptions.fromMap(texts);
        BucketedDvMaintainer maintainer = EngineDriver.flag(c, "vectors") ? maintainer(hidden) : null;
        Levels levels = new Levels(KEYS, files, options.numLevels());
        UniversalCompaction universal = new UniversalCompaction(
                options.maxSizeAmplificationPercent(),
                options.sortedRunSizeRatio(),
                options.numSortedRunCompactionTrigger(),
                EarlyFullCompaction.create(options),
                null);
        CompactStrategy strategy =
                EngineDriver.flag(c, "forced") ? new ForceUpLevel0Compaction(universal, null) : universal;
        List<Object> runs = new ArrayList<>();
        for (LevelSortedRun run : levels.levelSortedRuns()) runs.add(names(run.run()));
        Recorder recorder = new Recorder(levels.maxLevel(), maintainer, options);
        ExecutorService executor = Executors.newSingleThreadExecutor();
        try {
            MergeTreeCompactManager manager = new MergeTreeCompactManager(
                    executor, levels, strategy, KEYS, options.compactionFileSize(true), 1000, recorder, null,
                    maintainer, false, maintainer != null, null, false, false);
            manager.triggerCompaction(EngineDriver.flag(c, "full"));
            manager.getCompactionResult(true);
        } finally {
            executor.shutdown();
        }
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("runs", runs);
        found.put("acts", recorder.acts);
        return found;
    }

    /** types, keys [hex of a row...]: the places of the keys in the order of readers, equal ones in the order given. */
    static Object sort(JsonNode c) {
        List<DataType> types = new ArrayList<>();
        for (JsonNode type : c.get("types")) types.add(DataTypeJsonParser.parseDataType(type));
        List<BinaryRow> keys = new ArrayList<>();
        List<Integer> places = new ArrayList<>();
        for (JsonNode key : c.get("keys")) {
            places.add(keys.size());
            keys.add(SerializationUtils.deserializeBinaryRow(bytes(key.asText())));
        }
        Comparator<InternalRow> order = new KeyComparatorSupplier(RowType.of(types.toArray(new DataType[0]))).get();
        places.sort((one, other) -> order.compare(keys.get(one), keys.get(other)));
        return places;
    }

    private static byte[] bytes(String hex) {
        byte[] found = new byte[hex.length() / 2];
        for (int i = 0; i < found.length; i++) found[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        return found;
    }

    private static DataFileMeta file(JsonNode f) {
        return DataFileMeta.create(
                f.get(0).asText(), f.get(4).asLong(), 10L, BinaryRow.singleColumn(f.get(2).asInt()),
                BinaryRow.singleColumn(f.get(3).asInt()), SimpleStats.EMPTY_STATS, SimpleStats.EMPTY_STATS,
                f.get(5).asLong(), f.get(6).asLong(), 0L, f.get(1).asInt(), Collections.emptyList(),
                Timestamp.fromEpochMillis(f.get(7).asLong()), f.get(8).isNull() ? null : (Long) f.get(8).asLong(), null,
                FileSource.APPEND, null, null, null, null);
    }

    private static BucketedDvMaintainer maintainer(Map<String, DeletionVector> vectors) throws Exception {
        Constructor<BucketedDvMaintainer> made =
                BucketedDvMaintainer.class.getDeclaredConstructor(DeletionVectorsIndexFile.class, Map.class);
        made.setAccessible(true);
        return made.newInstance(VectorCommands.file("/nowhere", false, 1), vectors);
    }

    private static List<String> names(SortedRun run) {
        List<String> names = new ArrayList<>();
        for (DataFileMeta file : run.files()) names.add(file.fileName());
        return names;
    }

    /** Writes down what a task asks for, and does nothing. */
    private static class Recorder extends LookupMergeTreeCompactRewriter<Object> {
        final List<Object> acts = new ArrayList<>();
        private final boolean hasVectors;

        Recorder(int maxLevel, BucketedDvMaintainer maintainer, CoreOptions options) {
            super(maxLevel, MergeEngine.DEDUPLICATE, null, null, null, KEYS, null, null, null, null, false, maintainer,
                    options, null);
            hasVectors = maintainer != null;
        }

        @Override
        public CompactResult rewrite(int level, boolean dropDelete, List<List<SortedRun>> sections) {
            List<Object> found = new ArrayList<>();
            List<DataFileMeta> before = new ArrayList<>();
            for (List<SortedRun> section : sections) {
                List<Object> runs = new ArrayList<>();
                for (SortedRun run : section) {
                    runs.add(names(run));
                    before.addAll(run.files());
                }
                found.add(runs);
            }
            acts.add(Arrays.asList("rewrite", level, dropDelete, found));
            return new CompactResult(before, Collections.emptyList());
        }

        @Override
        public CompactResult upgrade(int level, DataFileMeta file) {
            String strategy = hasVectors ? upgradeStrategy(level, file).name() : "NO_CHANGELOG_NO_REWRITE";
            acts.add(Arrays.asList("upgrade", level, file.fileName(), strategy));
            return new CompactResult(file, file.upgrade(level));
        }
    }
}
