// Commands of the driver about partitions: rows that the caller states, deletes by others, and the judge of a snapshot.
import java.time.LocalDate;
import java.time.LocalTime;
import java.time.format.DateTimeFormatter;
import java.util.*;
import java.util.function.Predicate;
import org.apache.paimon.FileStore;
import org.apache.paimon.Snapshot;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.manifest.BucketEntry;
import org.apache.paimon.manifest.FileKind;
import org.apache.paimon.manifest.IndexManifestEntry;
import org.apache.paimon.manifest.ManifestCommittable;
import org.apache.paimon.manifest.ManifestEntry;
import org.apache.paimon.manifest.ManifestFileMeta;
import org.apache.paimon.manifest.PartitionEntry;
import org.apache.paimon.operation.FileStoreScan;
import org.apache.paimon.options.MemorySize;
import org.apache.paimon.partition.PartitionPredicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.TableCommitImpl;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.ScanMode;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.RowKind;
import org.apache.paimon.types.RowType;
import org.apache.paimon.utils.SegmentsCache;

class PartitionCommands {
    static void register(Map<String, EngineDriver.Command> commands) {
        commands.put("put", PartitionCommands::put);
        commands.put("truncate", PartitionCommands::truncate);
        commands.put("compact_manifests", PartitionCommands::compactManifests);
        commands.put("rows", PartitionCommands::rows);
        commands.put("live", PartitionCommands::live);
        commands.put("judge", PartitionCommands::judge);
        commands.put("opened", PartitionCommands::opened);
        commands.put("manifests", PartitionCommands::manifests);
    }

    static final DateTimeFormatter MILLISECONDS = DateTimeFormatter.ofPattern("HH:mm:ss.SSS", Locale.ROOT);
    static final DateTimeFormatter MICROSECONDS = DateTimeFormatter.ofPattern("uuuu-MM-dd HH:mm:ss.SSSSSS", Locale.ROOT);

    // ------------------------------------------------------------------------------------------------ writing

    /**
     * rows [[text or null...]...], each with the columns of the table from the first on; delete: they are -D; overwrite:
     * the partitions of the rows hold nothing else afterwards; watermark; hold: `commit_held` commits it. Returns the latest
     * snapshot's id.
     */
    static Object put(JsonNode c) throws Exception {
        FileStoreTable table = EngineDriver.table(c);
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        if (EngineDriver.flag(c, "overwrite")) builder.withOverwrite(Collections.emptyMap());
        List<CommitMessage> messages;
        try (IOManager io = IOManager.create(EngineDriver.spillDirectory); BatchTableWrite write = builder.newWrite()) {
            write.withIOManager(io);
            KeyedCommands.Sink sink = KeyedCommands.sink(table, write);
            for (JsonNode stated : c.get("rows")) {
                GenericRow row = row(table.rowType(), stated);
                if (EngineDriver.flag(c, "delete")) row.setRowKind(RowKind.DELETE);
                sink.write(row);
            }
            messages = write.prepareCommit();
        }
        if (EngineDriver.flag(c, "hold")) {
            EngineDriver.held = messages;
        } else if (c.hasNonNull("watermark")) {
            try (TableCommitImpl commit = table.newCommit(EngineDriver.COMMIT_USER)) {
                commit.commit(new ManifestCommittable(
                        BatchWriteBuilder.COMMIT_IDENTIFIER, c.get("watermark").asLong(), messages));
            }
        } else {
            try (BatchTableCommit commit = builder.newCommit()) {
                commit.commit(messages);
            }
        }
        return table.snapshotManager().latestSnapshotId();
    }

    static GenericRow row(RowType type, JsonNode stated) {
        GenericRow row = new GenericRow(type.getFieldCount());
        for (int i = 0; i < type.getFieldCount(); i++) {
            boolean isNull = i >= stated.size() || stated.get(i).isNull();
            row.setField(i, isNull ? null : EngineDriver.value(type.getTypeAt(i), stated.get(i).asText()));
        }
        return row;
    }

    static Object truncate(JsonNode c) throws Exception {
        FileStoreTable table = EngineDriver.table(c);
        try (BatchTableCommit commit = table.newBatchWriteBuilder().newCommit()) {
            commit.truncateTable();
        }
        return table.snapshotManager().latestSnapshotId();
    }

    static Object compactManifests(JsonNode c) throws Exception {
        FileStoreTable table = EngineDriver.table(c);
        try (BatchTableCommit commit = table.newBatchWriteBuilder().newCommit()) {
            commit.compactManifests();
        }
        return table.snapshotManager().latestSnapshotId();
    }

    // ------------------------------------------------------------------------------------------------ text

    static String text(DataType type, Object value) {
        if (value == null) return null;
        switch (type.getTypeRoot()) {
            case DATE: return LocalDate.ofEpochDay((Integer) value).toString();
            case TIME_WITHOUT_TIME_ZONE: return LocalTime.ofNanoOfDay((Integer) value * 1_000_000L).format(MILLISECONDS);
            case TIMESTAMP_WITHOUT_TIME_ZONE:
                return ((Timestamp) value).toLocalDateTime().format(MICROSECONDS);
            case BINARY:
            case VARBINARY: return Arrays.toString((byte[]) value);
            default: return value.toString();
        }
    }

    static List<String> texts(RowType type, InternalRow row) {
        List<String> texts = new ArrayList<>();
        for (int i = 0; i < type.getFieldCount(); i++)
            texts.add(text(type.getTypeAt(i), field(type, row, i)));
        return texts;
    }

    static Object field(RowType type, InternalRow row, int position) {
        return InternalRow.createFieldGetter(type.getTypeAt(position), position).getFieldOrNull(row);
    }

    // ------------------------------------------------------------------------------------------------ reading

    /** snapshot or tag, else the latest one: every row as text. */
    static Object rows(JsonNode c) throws Exception {
        FileStoreTable table = EngineDriver.table(c);
        if (c.hasNonNull("snapshot")) table = EngineDriver.at(table, "scan.snapshot-id", c.get("snapshot").asText());
        if (c.hasNonNull("tag")) table = EngineDriver.at(table, "scan.tag-name", c.get("tag").asText());
        return rows(table, table.newReadBuilder());
    }

    static List<List<String>> rows(FileStoreTable table, ReadBuilder builder) throws Exception {
        List<List<String>> rows = new ArrayList<>();
        try (IOManager io = IOManager.create(EngineDriver.spillDirectory)) {
            builder.newRead().withIOManager(io).createReader(builder.newScan().plan())
                    .forEachRemaining(row -> rows.add(texts(table.rowType(), row)));
        }
        rows.sort(Comparator.comparing(Object::toString));
        return rows;
    }

    /**
     * Of the latest snapshot: files [[partition], bucket, level, name, rows], index [[partition], bucket, type, name,
     * rows], and partitions [[partition], files, rows, newest creation time (epoch ms) of any entry].
     */
    static Object live(JsonNode c) throws Exception {
        FileStoreTable table = EngineDriver.table(c);
        Map<String, Object> result = new LinkedHashMap<>();
        Snapshot latest = table.snapshotManager().latestSnapshot();
        result.put("snapshot", latest == null ? null : latest.id());
        List<Object> files = new ArrayList<>(), index = new ArrayList<>(), partitions = new ArrayList<>();
        RowType keys = table.schema().logicalPartitionType();
        if (latest != null) {
            for (ManifestEntry e : table.store().newScan().plan().files())
                files.add(Arrays.asList(
                        texts(keys, e.partition()), e.bucket(), e.level(), e.fileName(), e.file().rowCount()));
            for (PartitionEntry e : table.store().newScan().readPartitionEntries())
                partitions.add(Arrays.asList(
                        texts(keys, e.partition()), e.fileCount(), e.recordCount(), e.lastFileCreationTime()));
            if (latest.indexManifest() != null)
                for (IndexManifestEntry e : table.store().newIndexFileHandler().readManifest(latest.indexManifest()))
                    index.add(Arrays.asList(
                            texts(keys, e.partition()), e.bucket(), e.indexFile().indexType(), e.indexFile().fileName(),
                            e.indexFile().rowCount()));
        }
        result.put("files", files);
        result.put("index", index);
        result.put("partitions", partitions);
        return result;
    }

    /**
     * What the latest snapshot holds, and whether filters agree with it: a filter that goes by the statistics of
     * manifests must find what a look at every entry finds. rows, files (as of `live`), index; filters: how many were
     * tried; wrong: what each of those that differ has lost or has too many.
     */
    @SuppressWarnings("unchecked")
    static Object judge(JsonNode c) throws Exception {
        FileStoreTable table = EngineDriver.table(c);
        Map<String, Object> result = (Map<String, Object>) live(c);
        if (result.get("snapshot") == null) {
            result.put("rows", Collections.emptyList());
            result.put("filters", 0);
            result.put("wrong", Collections.emptyList());
            return result;
        }
        Judge judge = new Judge(table);
        judge.judge();
        result.put("rows", judge.rows);
        result.put("filters", judge.filters);
        result.put("wrong", judge.wrong);
        return result;
    }

    /** partition [text...]: the manifests of the latest snapshot that a scan of this partition opens. */
    static Object opened(JsonNode c) throws Exception {
        FileStoreTable table = EngineDriver.table(c);
        RowType keys = table.schema().logicalPartitionType();
        PredicateBuilder predicates = new PredicateBuilder(keys);
        List<org.apache.paimon.predicate.Predicate> equal = new ArrayList<>();
        for (int i = 0; i < keys.getFieldCount(); i++)
            equal.add(predicates.equal(i, EngineDriver.value(keys.getTypeAt(i), c.get("partition").get(i).asText())));
        FileStoreScan scan = table.store().newScan()
                .withPartitionFilter(PartitionPredicate.fromPredicate(keys, PredicateBuilder.and(equal)));
        List<String> names = new ArrayList<>();
        for (ManifestFileMeta meta : scan.manifestsReader()
                .read(table.snapshotManager().latestSnapshot(), ScanMode.ALL).filteredManifests)
            names.add(meta.fileName());
        return names;
    }

    /** The manifests of the latest snapshot: [name, bytes, added, deleted], in the order of its lists. */
    static Object manifests(JsonNode c) throws Exception {
        FileStoreTable table = EngineDriver.table(c);
        Snapshot latest = table.snapshotManager().latestSnapshot();
        List<Object> manifests = new ArrayList<>();
        if (latest == null) return manifests;
        for (String list : Arrays.asList(latest.baseManifestList(), latest.deltaManifestList()))
            for (ManifestFileMeta meta : table.store().manifestListFactory().create().read(list))
                manifests.add(Arrays.asList(
                        meta.fileName(), meta.fileSize(), meta.numAddedFiles(), meta.numDeletedFiles()));
        return manifests;
    }

    interface Narrow {
        FileStoreScan by(FileStoreScan scan);
    }

    static class Judge {
        final FileStoreTable table;
        final FileStore<?> store;
        final Snapshot latest;
        final RowType keys;
        final List<ManifestEntry> all;
        final List<List<String>> rows;
        final List<String> wrong = new ArrayList<>();
        final Map<String, List<ManifestEntry>> manifests = new LinkedHashMap<>();
        int filters;

        Judge(FileStoreTable table) throws Exception {
            // one thread, and manifests in memory: it reads them once for each filter
            table = table.copy(Collections.singletonMap("scan.manifest.parallelism", "1"));
            this.table = table;
            table.setManifestCache(SegmentsCache.create(MemorySize.ofMebiBytes(64), Long.MAX_VALUE));
            store = table.store();
            latest = table.snapshotManager().latestSnapshot();
            keys = table.schema().logicalPartitionType();
            all = scan().plan().files();
            rows = rows(table, table.newReadBuilder());
        }

        FileStoreScan scan() {
            return store.newScan().withSnapshot(latest);
        }

        void judge() throws Exception {
            Set<BinaryRow> partitions = new LinkedHashSet<>();
            Set<Integer> buckets = new TreeSet<>(), levels = new TreeSet<>();
            // also of what was deleted, which must stay so behind every filter
            for (String list : Arrays.asList(latest.baseManifestList(), latest.deltaManifestList())) {
                for (ManifestFileMeta manifest : store.manifestListFactory().create().read(list)) {
                    List<ManifestEntry> entries = store.manifestFileFactory().create().read(manifest.fileName());
                    manifests.put(manifest.fileName(), entries);
                    for (ManifestEntry e : entries) {
                        partitions.add(e.partition().copy());
                        buckets.add(e.bucket());
                        levels.add(e.level());
                    }
                }
            }
            for (BinaryRow partition : partitions) {
                String name = "partition " + texts(keys, partition);
                expect(name, s -> s.withPartitionFilter(Collections.singletonList(partition)),
                        e -> e.partition().equals(partition));
                read(name, table.newReadBuilder().withPartitionFilter(PartitionPredicate.fromMultiple(
                        keys, Collections.singletonList(partition))), inPartition(texts(keys, partition)));
                for (int bucket : buckets) {
                    opens(name + " bucket " + bucket, s -> s.withPartitionBucket(partition, bucket),
                            e -> e.partition().equals(partition) && e.bucket() == bucket);
                }
            }
            for (int bucket : buckets)
                expect("bucket " + bucket, s -> s.withBucket(bucket), e -> e.bucket() == bucket);
            expect("real buckets", FileStoreScan::onlyReadRealBuckets, e -> e.bucket() >= 0);
            for (int level : levels) {
                expect("level " + level, s -> s.withLevel(level), e -> e.level() == level);
                expect("level up to " + level,
                        s -> s.withLevelFilter(x -> x <= level).withLevelMinMaxFilter((min, max) -> min <= level),
                        e -> e.level() <= level);
            }
            for (int i = 0; i < keys.getFieldCount(); i++) judgeField(i, partitions);
            judgeTotals();
        }

        /** Every comparison with every value that a partition key has or had. */
        void judgeField(int position, Set<BinaryRow> partitions) throws Exception {
            DataField field = keys.getFields().get(position);
            PredicateBuilder predicates = new PredicateBuilder(keys);
            int column = table.rowType().getFieldIndex(field.name());
            PredicateBuilder columns = new PredicateBuilder(table.rowType());
            Set<Object> values = new LinkedHashSet<>();
            for (BinaryRow partition : partitions) values.add(field(keys, partition, position));
            expectField(position, "is null", predicates.isNull(position), x -> x == null);
            expectField(position, "is not null", predicates.isNotNull(position), x -> x != null);
            for (Object value : values) {
                String name = field.name() + " = " + text(field.type(), value);
                String text = text(field.type(), value);
                read(name, table.newReadBuilder().withFilter(
                                value == null ? columns.isNull(column) : columns.equal(column, value)),
                        row -> Objects.equals(row.get(column), text));
                if (value == null) continue;
                expectField(position, "= " + text, predicates.equal(position, value), x -> compare(x, value) == 0);
                expectField(position, "< " + text, predicates.lessThan(position, value), x -> compare(x, value) < 0);
                expectField(position, "<= " + text, predicates.lessOrEqual(position, value), x -> compare(x, value) <= 0);
                expectField(position, "> " + text, predicates.greaterThan(position, value), x -> compare(x, value) > 0);
                expectField(position, ">= " + text, predicates.greaterOrEqual(position, value), x -> compare(x, value) >= 0);
            }
        }

        @SuppressWarnings({"unchecked", "rawtypes"})
        static int compare(Object one, Object other) {
            return ((Comparable) one).compareTo(other);
        }

        void expectField(
                int position, String what, org.apache.paimon.predicate.Predicate predicate, Predicate<Object> accepts) {
            boolean ofNulls = what.startsWith("is");
            opens(keys.getFieldNames().get(position) + " " + what,
                    s -> s.withPartitionFilter(PartitionPredicate.fromPredicate(keys, predicate)),
                    e -> {
                        Object value = field(keys, e.partition(), position);
                        return (ofNulls || value != null) && accepts.test(value);
                    });
        }

        void expect(String name, Narrow narrow, Predicate<ManifestEntry> accepts) {
            Set<String> expected = new TreeSet<>(), found = new TreeSet<>();
            for (ManifestEntry e : all) if (accepts.test(e)) expected.add(e.fileName());
            filters++;
            try {
                for (ManifestEntry e : narrow.by(scan()).plan().files()) found.add(e.fileName());
            } catch (RuntimeException e) {
                wrong.add(name + ": " + e);
                return;
            }
            compare(name, expected, found);
        }

        /** A scan opens every manifest with an entry that it is to find. */
        void opens(String name, Narrow narrow, Predicate<ManifestEntry> accepts) {
            filters++;
            Set<String> opened = new HashSet<>();
            for (ManifestFileMeta m : narrow.by(scan()).manifestsReader().read(latest, ScanMode.ALL).filteredManifests)
                opened.add(m.fileName());
            manifests.forEach((manifest, entries) -> {
                if (!opened.contains(manifest) && entries.stream().anyMatch(accepts))
                    wrong.add(name + ": does not open " + manifest);
            });
        }

        void read(String name, ReadBuilder builder, Predicate<List<String>> accepts) throws Exception {
            List<String> expected = new ArrayList<>(), found = new ArrayList<>();
            for (List<String> row : rows) if (accepts.test(row)) expected.add(row.toString());
            filters++;
            // a reader may give more than the predicate asks for, since data are filtered by whoever reads
            for (List<String> row : rows(table, builder)) if (accepts.test(row)) found.add(row.toString());
            if (!expected.equals(found)) compare("rows of " + name, new TreeSet<>(expected), new TreeSet<>(found));
        }

        void compare(String name, Set<String> expected, Set<String> found) {
            Set<String> lost = new TreeSet<>(expected), more = new TreeSet<>(found);
            lost.removeAll(found);
            more.removeAll(expected);
            if (!lost.isEmpty() || !more.isEmpty()) wrong.add(name + ": lost " + lost + ", too many " + more);
        }

        Predicate<List<String>> inPartition(List<String> partition) {
            int[] columns = keys.getFieldNames().stream().mapToInt(n -> table.rowType().getFieldIndex(n)).toArray();
            return row -> {
                for (int i = 0; i < columns.length; i++)
                    if (!Objects.equals(row.get(columns[i]), partition.get(i))) return false;
                return true;
            };
        }

        /** The sums that a listing of partitions and of buckets shows. */
        void judgeTotals() {
            Map<Object, List<Long>> expected = new TreeMap<>(Comparator.comparing(Object::toString));
            for (ManifestEntry e : all) {
                add(expected, texts(keys, e.partition()).toString(), e);
                add(expected, texts(keys, e.partition()) + "/" + e.bucket(), e);
            }
            Map<Object, List<Long>> found = new TreeMap<>(Comparator.comparing(Object::toString));
            for (PartitionEntry e : scan().readPartitionEntries())
                if (e.fileCount() != 0 || e.recordCount() != 0)
                    found.put(texts(keys, e.partition()).toString(),
                            Arrays.asList(e.fileCount(), e.recordCount(), e.fileSizeInBytes()));
            for (BucketEntry e : scan().readBucketEntries())
                if (e.fileCount() != 0 || e.recordCount() != 0)
                    found.put(texts(keys, e.partition()) + "/" + e.bucket(),
                            Arrays.asList(e.fileCount(), e.recordCount(), e.fileSizeInBytes()));
            filters += 2;
            if (!expected.equals(found)) wrong.add("totals: expected " + expected + ", found " + found);
        }

        static void add(Map<Object, List<Long>> totals, Object key, ManifestEntry e) {
            List<Long> sum = totals.getOrDefault(key, Arrays.asList(0L, 0L, 0L));
            totals.put(key, Arrays.asList(
                    sum.get(0) + 1, sum.get(1) + e.file().rowCount(), sum.get(2) + e.file().fileSize()));
        }
    }
}
