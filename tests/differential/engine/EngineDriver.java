// Drives the Java engine (Apache Paimon 1.4.2, core only) for the differential tests and the benchmarks.
//
// One JVM; one JSON command a line on standard input, one JSON answer a line on standard output:
//     {"cmd": "scan", "table": "db.t", "snapshot": 3}
//     {"ok": true, "result": {"rows": 12, "checksum": -77}, "ms": 8.1}
//     {"ok": false, "error": "...", "trace": "...", "ms": 0.4}
// Every command takes `table`; `branch` and `options` (dynamic table options) go with each of them.
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneId;
import java.util.*;
import org.apache.paimon.Changelog;
import org.apache.paimon.CoreOptions;
import org.apache.paimon.CoreOptions.ChangelogProducer;
import org.apache.paimon.FileStore;
import org.apache.paimon.Snapshot;
import org.apache.paimon.append.AppendCompactCoordinator;
import org.apache.paimon.append.AppendCompactTask;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.consumer.Consumer;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.deletionvectors.Bitmap64DeletionVector;
import org.apache.paimon.deletionvectors.BitmapDeletionVector;
import org.apache.paimon.deletionvectors.DeletionVector;
import org.apache.paimon.deletionvectors.append.AppendDeleteFileMaintainer;
import org.apache.paimon.deletionvectors.append.BaseAppendDeleteFileMaintainer;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.FileStatus;
import org.apache.paimon.fs.Path;
import org.apache.paimon.index.IndexFileMeta;
import org.apache.paimon.io.CompactIncrement;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.io.DataFilePathFactory;
import org.apache.paimon.io.DataIncrement;
import org.apache.paimon.manifest.BucketEntry;
import org.apache.paimon.manifest.FileKind;
import org.apache.paimon.manifest.FileSource;
import org.apache.paimon.manifest.IndexManifestEntry;
import org.apache.paimon.manifest.ManifestCommittable;
import org.apache.paimon.manifest.ManifestEntry;
import org.apache.paimon.manifest.ManifestFileMeta;
import org.apache.paimon.operation.BaseAppendFileStoreWrite;
import org.apache.paimon.operation.CleanOrphanFilesResult;
import org.apache.paimon.operation.LocalOrphanFilesClean;
import org.apache.paimon.operation.OrphanFilesClean;
import org.apache.paimon.options.ExpireConfig;
import org.apache.paimon.options.Options;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaChange;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.stats.Statistics;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.ExpireChangelogImpl;
import org.apache.paimon.table.ExpireSnapshots;
import org.apache.paimon.table.ExpireSnapshotsImpl;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.CommitMessageImpl;
import org.apache.paimon.table.sink.TableCommitImpl;
import org.apache.paimon.table.sink.TableWrite;
import org.apache.paimon.table.source.EndOfScanException;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.ScanMode;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.table.source.StreamTableScan;
import org.apache.paimon.table.source.snapshot.SnapshotReader;
import org.apache.paimon.table.source.snapshot.TimeTravelUtil;
import org.apache.paimon.tag.Tag;
import org.apache.paimon.tag.TagBatchCreation;
import org.apache.paimon.tag.TagTimeExpire;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeJsonParser;
import org.apache.paimon.types.DataTypeRoot;
import org.apache.paimon.types.RowKind;
import org.apache.paimon.types.RowType;
import org.apache.paimon.utils.Pair;
import org.apache.paimon.utils.ProcedureUtils;
import org.apache.paimon.utils.SnapshotManager;
import org.apache.paimon.utils.TypeUtils;

public class EngineDriver {
    interface Command {
        Object run(JsonNode arguments) throws Exception;
    }

    static final ObjectMapper JSON = new ObjectMapper();
    static final Map<String, Command> COMMANDS = new TreeMap<>();
    static final String COMMIT_USER = "differential";

    static Catalog catalog;
    static List<CommitMessage> held;
    static String spillDirectory = System.getProperty("java.io.tmpdir");

    static {
        COMMANDS.put("open", EngineDriver::open);
        COMMANDS.put("create", EngineDriver::create);
        COMMANDS.put("alter", EngineDriver::alter);
        COMMANDS.put("drop", EngineDriver::drop);
        COMMANDS.put("write", EngineDriver::write);
        COMMANDS.put("compact", EngineDriver::compact);
        COMMANDS.put("dv_delete", EngineDriver::deleteByVector);
        COMMANDS.put("commit_held", EngineDriver::commitHeld);
        COMMANDS.put("drop_partitions", EngineDriver::dropPartitions);
        COMMANDS.put("statistics", EngineDriver::statistics);
        COMMANDS.put("tag", EngineDriver::tag);
        COMMANDS.put("tag_json", EngineDriver::tagJson);
        COMMANDS.put("tags", EngineDriver::tagsTable);
        COMMANDS.put("branch", EngineDriver::branch);
        COMMANDS.put("rollback", EngineDriver::rollback);
        COMMANDS.put("rollback_as_latest", EngineDriver::rollbackAsLatest);
        COMMANDS.put("consumer", EngineDriver::consumer);
        COMMANDS.put("expire", EngineDriver::expire);
        COMMANDS.put("expire_changelogs", EngineDriver::expireChangelogs);
        COMMANDS.put("expire_partitions", EngineDriver::expirePartitions);
        COMMANDS.put("expire_tags", EngineDriver::expireTags);
        COMMANDS.put("orphans", EngineDriver::orphans);
        COMMANDS.put("travel", EngineDriver::travel);
        COMMANDS.put("scan", EngineDriver::scan);
        COMMANDS.put("scan_all", EngineDriver::scanAll);
        COMMANDS.put("changes", EngineDriver::changes);
        COMMANDS.put("stream", EngineDriver::stream);
        COMMANDS.put("references", EngineDriver::references);
        COMMANDS.put("snapshots", EngineDriver::snapshots);
        COMMANDS.put("files", EngineDriver::files);
        COMMANDS.put("memory", EngineDriver::memory);
        COMMANDS.put("zone", EngineDriver::zone);
        COMMANDS.put("clock", EngineDriver::clock);
        KeyedCommands.register(COMMANDS);
        PartitionCommands.register(COMMANDS);
        TypedCommands.register(COMMANDS);
        VectorCommands.register(COMMANDS);
        LevelCommands.register(COMMANDS);
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        System.setOut(System.err); // nothing else may write into the stream of answers
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            Map<String, Object> answer = new LinkedHashMap<>();
            long start = System.nanoTime();
            try {
                JsonNode arguments = JSON.readTree(line);
                Command command = COMMANDS.get(arguments.get("cmd").asText());
                if (command == null) throw new IllegalArgumentException("no command " + arguments.get("cmd"));
                Object result = command.run(arguments);
                answer.put("ok", true);
                answer.put("result", result);
            } catch (Throwable e) {
                StringWriter trace = new StringWriter();
                e.printStackTrace(new PrintWriter(trace));
                answer.put("ok", false);
                answer.put("error", e.toString());
                answer.put("trace", trace.toString());
            }
            answer.put("ms", (System.nanoTime() - start) / 1_000_000.0);
            answers.println(JSON.writeValueAsString(answer));
        }
    }

    // ------------------------------------------------------------------------------------------------ arguments

    static Map<String, String> stringMap(JsonNode node) {
        Map<String, String> map = new LinkedHashMap<>();
        if (node != null) node.fields().forEachRemaining(e -> map.put(e.getKey(), e.getValue().asText()));
        return map;
    }

    static List<String> stringList(JsonNode node) {
        List<String> list = new ArrayList<>();
        if (node != null) node.forEach(x -> list.add(x.asText()));
        return list;
    }

    static String string(JsonNode c, String key, String fallback) {
        return c.hasNonNull(key) ? c.get(key).asText() : fallback;
    }

    static Integer integer(JsonNode c, String key) {
        return c.hasNonNull(key) ? (Integer) c.get(key).asInt() : null;
    }

    static int integer(JsonNode c, String key, int fallback) {
        return c.hasNonNull(key) ? c.get(key).asInt() : fallback;
    }

    static boolean flag(JsonNode c, String key) {
        return c.has(key) && c.get(key).asBoolean();
    }

    /** older_than_ms (epoch) or time_retain_s, as the duration before now that the procedures hand on. */
    static Duration age(JsonNode c) {
        if (c.hasNonNull("older_than_ms"))
            return Duration.ofMillis(System.currentTimeMillis() - c.get("older_than_ms").asLong());
        return c.hasNonNull("time_retain_s") ? Duration.ofSeconds(c.get("time_retain_s").asLong()) : null;
    }

    static Identifier identifier(JsonNode c) {
        String[] name = c.get("table").asText().split("\\.", 2);
        return c.hasNonNull("branch")
                ? new Identifier(name[0], name[1], c.get("branch").asText())
                : Identifier.create(name[0], name[1]);
    }

    static FileStoreTable table(JsonNode c) throws Exception {
        FileStoreTable table = (FileStoreTable) catalog.getTable(identifier(c));
        Map<String, String> options = stringMap(c.get("options"));
        return options.isEmpty() ? table : table.copy(options);
    }

    static DataType type(String name) {
        return DataTypeJsonParser.parseAtomicTypeSQLString(name);
    }

    static Object value(DataType type, String text) {
        return TypeUtils.castFromString(text, type);
    }

    // ------------------------------------------------------------------------------------------------ tables

    /** warehouse, options, tmp. The catalog's cache is off, since the tests move files under its feet. */
    static Object open(JsonNode c) throws Exception {
        if (catalog != null) catalog.close();
        Options options = Options.fromMap(stringMap(c.get("options")));
        options.set("warehouse", c.get("warehouse").asText());
        if (!options.containsKey("cache-enabled")) options.set("cache-enabled", "false");
        spillDirectory = string(c, "tmp", spillDirectory);
        catalog = CatalogFactory.createCatalog(CatalogContext.create(options));
        return catalog.listDatabases();
    }

    /** columns [[name, type]...], primary_keys, partition_keys, options. Returns the table's location. */
    static Object create(JsonNode c) throws Exception {
        Map<String, String> options = stringMap(c.get("options"));
        catalog.createDatabase(identifier(c).getDatabaseName(), true);
        Set<String> keys = new HashSet<>(stringList(c.get("primary_keys")));
        Schema.Builder schema = Schema.newBuilder();
        for (JsonNode column : c.get("columns")) {
            String name = column.get(0).asText();
            DataType type = type(column.get(1).asText());
            schema.column(name, keys.contains(name) ? type.notNull() : type);
        }
        schema.primaryKey(stringList(c.get("primary_keys"))).partitionKeys(stringList(c.get("partition_keys")));
        options.forEach(schema::option);
        catalog.createTable(identifier(c), schema.build(), false);
        return ((FileStoreTable) catalog.getTable(identifier(c))).location().toString();
    }

    /** set {key: value}, unset [key], add_columns [[name, type]]. Returns the new schema's id. */
    static Object alter(JsonNode c) throws Exception {
        List<SchemaChange> changes = new ArrayList<>();
        stringList(c.get("unset")).forEach(k -> changes.add(SchemaChange.removeOption(k)));
        stringMap(c.get("set")).forEach((k, v) -> changes.add(SchemaChange.setOption(k, v)));
        if (c.has("add_columns"))
            c.get("add_columns")
                    .forEach(x -> changes.add(SchemaChange.addColumn(x.get(0).asText(), type(x.get(1).asText()))));
        catalog.alterTable(identifier(c), changes, false);
        return table(c).schema().id();
    }

    static Object drop(JsonNode c) throws Exception {
        catalog.dropTable(identifier(c), true);
        return null;
    }

    // ------------------------------------------------------------------------------------------------ data

    /**
     * commits, n rows each in each of `rounds` writers, seed, keys [lo, hi), parts [[value...]...], deletes (the share
     * of rows that are -D), compact, overwrite {partition}. Partition columns come from parts, numbers and keys from
     * the key range, other text from the seed. With watermark, properties or identifier the commits are those of a
     * streaming job, as which they overwrite nothing. Returns the latest snapshot's id after each commit.
     */
    static Object write(JsonNode c) throws Exception {
        int n = c.get("n").asInt(), rounds = integer(c, "rounds", 1);
        long seed = integer(c, "seed", 1);
        int lo = c.has("keys") ? c.get("keys").get(0).asInt() : 0;
        int hi = c.has("keys") ? c.get("keys").get(1).asInt() : n * 4;
        double deletes = c.has("deletes") ? c.get("deletes").asDouble() : 0;
        List<Long> ids = new ArrayList<>();
        for (int k = 0; k < integer(c, "commits", 1); k++) {
            FileStoreTable table = table(c);
            if (flag(c, "compact")) table = table.copy(Collections.singletonMap("write-only", "false"));
            Random random = new Random(seed * 1000003 + k);
            BatchWriteBuilder builder = table.newBatchWriteBuilder();
            if (c.has("overwrite")) builder.withOverwrite(stringMap(c.get("overwrite")));
            List<CommitMessage> messages = new ArrayList<>();
            for (int round = 0; round < rounds; round++) {
                try (IOManager io = IOManager.create(spillDirectory); BatchTableWrite write = builder.newWrite()) {
                    write.withIOManager(io);
                    KeyedCommands.Sink sink = KeyedCommands.sink(table, write);
                    for (int r = 0; r < n; r++) {
                        String text = "s" + seed + "-" + k + "-" + r;
                        sink.write(row(table, c.get("parts"), random, lo, hi, text, deletes));
                    }
                    if (flag(c, "compact")) compactBuckets(table, write, true);
                    messages.addAll(write.prepareCommit());
                }
            }
            if (c.hasNonNull("watermark") || c.has("properties") || c.hasNonNull("identifier")) {
                long identifier = c.hasNonNull("identifier")
                        ? c.get("identifier").asLong()
                        : BatchWriteBuilder.COMMIT_IDENTIFIER;
                Long watermark = c.hasNonNull("watermark") ? (Long) c.get("watermark").asLong() : null;
                try (TableCommitImpl commit = table.newCommit(COMMIT_USER)) {
                    commit.commit(new ManifestCommittable(
                            identifier, watermark, messages, stringMap(c.get("properties"))));
                }
            } else {
                try (BatchTableCommit commit = builder.newCommit()) {
                    commit.commit(messages);
                }
            }
            ids.add(table.snapshotManager().latestSnapshotId());
        }
        return ids;
    }

    static GenericRow row(
            FileStoreTable table, JsonNode parts, Random random, int lo, int hi, String text, double deletes) {
        RowType type = table.rowType();
        GenericRow row = new GenericRow(type.getFieldCount());
        JsonNode part = parts == null || parts.size() == 0 ? null : parts.get(random.nextInt(parts.size()));
        int key = lo + random.nextInt(hi - lo);
        for (int i = 0; i < type.getFieldCount(); i++) {
            DataField field = type.getFields().get(i);
            int position = table.partitionKeys().indexOf(field.name());
            boolean isText = field.type().getTypeRoot() == DataTypeRoot.VARCHAR;
            if (position >= 0) {
                JsonNode x = part.get(position);
                row.setField(i, x.isNull() ? null : value(field.type(), x.asText()));
            } else if (isText && !table.primaryKeys().contains(field.name())) {
                row.setField(i, BinaryString.fromString(text));
            } else {
                row.setField(i, value(field.type(), String.valueOf(key)));
            }
        }
        if (!table.primaryKeys().isEmpty() && deletes > 0 && random.nextDouble() < deletes)
            row.setRowKind(RowKind.DELETE);
        return row;
    }

    static void compactBuckets(FileStoreTable table, TableWrite write, boolean full) throws Exception {
        compactBuckets(table, write, full, null);
    }

    static void compactBuckets(FileStoreTable table, TableWrite write, boolean full, Integer only) throws Exception {
        for (BucketEntry b : table.newSnapshotReader().bucketEntries())
            if (only == null || only == b.bucket()) write.compact(b.partition(), b.bucket(), full);
    }

    /**
     * A full compaction of every bucket, or of the one numbered `bucket`; with `minor` what the engine takes. Without
     * buckets, whatever the compact coordinator finds worth a task. With `hold` it is prepared, and `commit_held` commits it.
     */
    static Object compact(JsonNode c) throws Exception {
        FileStoreTable table = table(c).copy(Collections.singletonMap("write-only", "false"));
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        List<CommitMessage> messages = new ArrayList<>();
        if (table.bucketMode() == BucketMode.BUCKET_UNAWARE) {
            AppendCompactCoordinator coordinator = new AppendCompactCoordinator(table, false);
            BaseAppendFileStoreWrite write = (BaseAppendFileStoreWrite) (Object) table.store().newWrite(COMMIT_USER);
            try {
                List<AppendCompactTask> tasks;
                do {
                    tasks = coordinator.run();
                    for (AppendCompactTask task : tasks) messages.add(task.doCompact(table, write));
                } while (!tasks.isEmpty());
            } catch (EndOfScanException e) {
                // the coordinator's way to say that it has seen every file
            } finally {
                write.close();
            }
        } else {
            try (IOManager io = IOManager.create(spillDirectory); BatchTableWrite write = builder.newWrite()) {
                write.withIOManager(io);
                compactBuckets(table, write, !flag(c, "minor"), integer(c, "bucket"));
                messages = write.prepareCommit();
            }
        }
        return commitOrHold(c, table, builder, messages);
    }

    /** Commit messages, or keep them for `commit_held`. Returns the latest snapshot's id. */
    static Long commitOrHold(JsonNode c, FileStoreTable table, BatchWriteBuilder builder, List<CommitMessage> messages)
            throws Exception {
        if (flag(c, "hold")) {
            held = messages;
        } else {
            try (BatchTableCommit commit = builder.newCommit()) {
                commit.commit(messages);
            }
        }
        return table.snapshotManager().latestSnapshotId();
    }

    /**
     * Mark n positions of every data file, or of those with names in `only`, as deleted: append tables without buckets and
     * with deletion vectors. With `hold` it is prepared, and `commit_held` commits it.
     */
    static Object deleteByVector(JsonNode c) throws Exception {
        FileStoreTable table = table(c);
        int n = c.get("n").asInt();
        Set<String> only = new HashSet<>(stringList(c.get("only")));
        Map<BinaryRow, List<DataFileMeta>> files = new HashMap<>();
        for (ManifestEntry e : table.store().newScan().plan().files())
            if (only.isEmpty() || only.contains(e.fileName())) files.computeIfAbsent(e.partition(), k -> new ArrayList<>()).add(e.file());
        List<CommitMessage> messages = new ArrayList<>();
        for (Map.Entry<BinaryRow, List<DataFileMeta>> partition : files.entrySet()) {
            AppendDeleteFileMaintainer maintainer = BaseAppendDeleteFileMaintainer.forUnawareAppend(
                    table.store().newIndexFileHandler(), table.snapshotManager().latestSnapshot(), partition.getKey());
            for (DataFileMeta file : partition.getValue()) {
                DeletionVector vector = maintainer.getDeletionVector(file.fileName());
                if (vector == null)
                    vector = table.coreOptions().deletionVectorBitmap64()
                            ? new Bitmap64DeletionVector() : new BitmapDeletionVector();
                for (int i = 0; i < n && i < file.rowCount(); i++) vector.delete((i * 7L) % file.rowCount());
                maintainer.notifyNewDeletionVector(file.fileName(), vector);
            }
            List<IndexFileMeta> added = new ArrayList<>(), removed = new ArrayList<>();
            for (IndexManifestEntry e : maintainer.persist())
                (e.kind() == FileKind.ADD ? added : removed).add(e.indexFile());
            DataIncrement increment = new DataIncrement(
                    Collections.emptyList(), Collections.emptyList(), Collections.emptyList(), added, removed);
            messages.add(new CommitMessageImpl(partition.getKey(), 0, table.coreOptions().bucket(), increment,
                    CompactIncrement.emptyIncrement()));
        }
        return commitOrHold(c, table, table.newBatchWriteBuilder(), messages);
    }

    /** Commit what `dv_delete`, `compact`, `put` or `typed_put` has prepared. */
    static Object commitHeld(JsonNode c) throws Exception {
        FileStoreTable table = table(c);
        try (BatchTableCommit commit = table.newBatchWriteBuilder().newCommit()) {
            commit.commit(held);
        }
        return table.snapshotManager().latestSnapshotId();
    }

    /** specs [{key: value}] */
    static Object dropPartitions(JsonNode c) throws Exception {
        FileStoreTable table = table(c);
        List<Map<String, String>> specs = new ArrayList<>();
        c.get("specs").forEach(x -> specs.add(stringMap(x)));
        try (BatchTableCommit commit = table.newBatchWriteBuilder().newCommit()) {
            commit.truncatePartitions(specs);
        }
        return table.snapshotManager().latestSnapshotId();
    }

    /** Commit a statistics file about the latest snapshot, as ANALYZE TABLE does. */
    static Object statistics(JsonNode c) throws Exception {
        FileStoreTable table = table(c);
        Snapshot latest = table.snapshotManager().latestSnapshot();
        try (BatchTableCommit commit = table.newBatchWriteBuilder().newCommit()) {
            commit.updateStatistics(new Statistics(latest.id(), latest.schemaId(), latest.totalRecordCount(), 1L));
        }
        return table.snapshotManager().latestSnapshotId();
    }

    // ------------------------------------------------------------------------------------------------ roots

    /**
     * op create, delete, rename, replace, auto (as after a commit) or batch (as after that of a batch job); name, to,
     * ttl (ISO-8601); of snapshot, timestamp_ms or watermark, as the procedures choose it. Returns all tags.
     */
    static Object tag(JsonNode c) throws Exception {
        FileStoreTable table = table(c);
        String name = string(c, "name", null), op = string(c, "op", "create");
        Duration ttl = c.hasNonNull("ttl") ? Duration.parse(c.get("ttl").asText()) : null;
        Long snapshot = source(table, c);
        switch (op) {
            case "create":
                // without a time to live the table's default; its procedures say null, by which it has none
                if (ttl == null && snapshot == null) table.createTag(name);
                else if (ttl == null) table.createTag(name, snapshot);
                else if (snapshot == null) table.createTag(name, ttl);
                else table.createTag(name, snapshot, ttl);
                break;
            case "delete":
                if (c.get("name").isArray()) table.deleteTags(String.join(",", stringList(c.get("name"))));
                else table.deleteTag(name);
                break;
            case "rename": table.renameTag(name, c.get("to").asText()); break;
            case "replace": table.replaceTag(name, snapshot, ttl); break;
            case "auto":
            case "batch":
                table.copy(Collections.singletonMap("write-only", "false")).newTagAutoManager().run();
                if (op.equals("batch")) new TagBatchCreation(table).createTag();
                break;
            default: throw new IllegalArgumentException(op);
        }
        return tags(table);
    }

    /**
     * The snapshot to tag. The procedures that go by a time or a watermark are no part of the core; they take the
     * earliest snapshot that reaches it, unless the first tag that does is earlier.
     */
    static Long source(FileStoreTable table, JsonNode c) throws Exception {
        if (c.hasNonNull("snapshot")) return c.get("snapshot").asLong();
        boolean byTime = c.hasNonNull("timestamp_ms");
        if (!byTime && !c.hasNonNull("watermark")) return null;
        long least = c.get(byTime ? "timestamp_ms" : "watermark").asLong();
        SnapshotManager snapshots = table.snapshotManager();
        Snapshot found = byTime ? snapshots.laterOrEqualTimeMills(least) : snapshots.laterOrEqualWatermark(least);
        Long reached = found == null ? null : progress(found, byTime);
        for (Snapshot tagged : table.tagManager().tags().keySet()) {
            Long progress = progress(tagged, byTime);
            if (progress == null || progress < least) continue;
            if (reached == null || progress < reached) found = tagged;
            break;
        }
        if (found == null) throw new IllegalArgumentException("no snapshot reaches " + least);
        return found.id();
    }

    static Long progress(Snapshot snapshot, boolean byTime) {
        return byTime ? (Long) snapshot.timeMillis() : snapshot.watermark();
    }

    /** snapshot, created (ISO-8601, without a zone), ttl: the document of a tag as the engine would write it. */
    static Object tagJson(JsonNode c) throws Exception {
        Snapshot snapshot = c.hasNonNull("body")
                ? Snapshot.fromJson(c.get("body").asText())
                : table(c).snapshotManager().snapshot(c.get("snapshot").asLong());
        if (!c.hasNonNull("ttl")) return snapshot.toJson();
        return Tag.fromSnapshotAndTagTtl(
                        snapshot, Duration.parse(c.get("ttl").asText()), LocalDateTime.parse(c.get("created").asText()))
                .toJson();
    }

    /** The rows of the system table of tags, as text. */
    static Object tagsTable(JsonNode c) throws Exception {
        Identifier main = identifier(c);
        Table table = catalog.getTable(
                new Identifier(main.getDatabaseName(), main.getTableName(), main.getBranchName(), "tags"));
        RowType type = table.rowType();
        List<Object> rows = new ArrayList<>();
        ReadBuilder builder = table.newReadBuilder();
        builder.newRead().createReader(builder.newScan().plan()).forEachRemaining(row -> {
            Map<String, Object> columns = new LinkedHashMap<>();
            for (int i = 0; i < type.getFieldCount(); i++) {
                Object value = InternalRow.createFieldGetter(type.getTypeAt(i), i).getFieldOrNull(row);
                columns.put(type.getFieldNames().get(i), value == null ? null : value.toString());
            }
            rows.add(columns);
        });
        return rows;
    }

    /** name, instants (epoch ms): what clocks there show. */
    static Object zone(JsonNode c) {
        ZoneId zone = ZoneId.of(c.get("name").asText());
        List<String> times = new ArrayList<>();
        c.get("instants").forEach(x -> times.add(
                LocalDateTime.ofInstant(Instant.ofEpochMilli(x.asLong()), zone).toString()));
        return times;
    }

    /** name: where the clock of this JVM stands from now on. */
    static Object clock(JsonNode c) {
        TimeZone.setDefault(TimeZone.getTimeZone(ZoneId.of(c.get("name").asText())));
        return ZoneId.systemDefault().getId();
    }

    static Map<String, Object> tags(FileStoreTable table) {
        Map<String, Object> tags = new TreeMap<>();
        for (Pair<Tag, String> p : table.tagManager().tagObjects()) {
            Map<String, Object> tag = new LinkedHashMap<>();
            tag.put("snapshot", p.getLeft().id());
            tag.put("created", String.valueOf(p.getLeft().getTagCreateTime()));
            tag.put("ttl", String.valueOf(p.getLeft().getTagTimeRetained()));
            tags.put(p.getRight(), tag);
        }
        return tags;
    }

    /** op create, delete, rename or fast_forward; name, tag, to. Returns all branches. */
    static Object branch(JsonNode c) throws Exception {
        FileStoreTable table = table(c);
        String name = string(c, "name", null), op = string(c, "op", "create");
        switch (op) {
            case "create":
                if (c.hasNonNull("tag")) table.createBranch(name, c.get("tag").asText());
                else table.createBranch(name);
                break;
            case "delete": table.deleteBranch(name); break;
            case "rename": table.renameBranch(name, c.get("to").asText()); break;
            case "fast_forward": table.fastForward(name); break;
            default: throw new IllegalArgumentException(op);
        }
        return table.branchManager().branches();
    }

    /** snapshot, tag, timestamp_ms or watermark, of which the last two choose a snapshot as the procedures do. */
    static Object rollback(JsonNode c) throws Exception {
        FileStoreTable table = table(c);
        SnapshotManager snapshots = table.snapshotManager();
        if (c.hasNonNull("tag")) {
            table.rollbackTo(c.get("tag").asText());
        } else if (c.hasNonNull("snapshot")) {
            table.rollbackTo(c.get("snapshot").asLong());
        } else {
            Snapshot found = c.hasNonNull("watermark")
                    ? snapshots.earlierOrEqualWatermark(c.get("watermark").asLong())
                    : snapshots.earlierOrEqualTimeMills(c.get("timestamp_ms").asLong());
            if (found == null) throw new IllegalArgumentException("no snapshot is as old as " + c);
            table.rollbackTo(found.id());
        }
        return table.snapshotManager().latestSnapshotId();
    }

    /**
     * Commit the data and index files of snapshot `to` as the newest snapshot. 1.4.2 has no procedure for that; later
     * versions have (`rollback_to_as_latest`). Of such a commit this one sees what it makes here: a delta that adds files
     * again which an earlier delta deleted, on top of a base that was written anew. Without changelogs.
     */
    static Object rollbackAsLatest(JsonNode c) throws Exception {
        Map<String, String> newBase = new HashMap<>();
        newBase.put("manifest.merge-min-count", "1");
        newBase.put("manifest.full-compaction-threshold-size", "1 b");
        FileStoreTable table = table(c).copy(newBase);
        Map<Object, CommitMessage> now = contents(table, table.snapshotManager().latestSnapshot(), false);
        Map<Object, CommitMessage> then = contents(table, table.snapshotManager().snapshot(c.get("to").asLong()), true);
        List<CommitMessage> messages = new ArrayList<>();
        now.forEach((key, gone) -> { if (!then.containsKey(key)) messages.add(gone); });
        then.forEach((key, back) -> { if (!now.containsKey(key)) messages.add(back); });
        try (BatchTableCommit commit = table.newBatchWriteBuilder().newCommit()) {
            commit.commit(messages);
        }
        return table.snapshotManager().latestSnapshotId();
    }

    /** Every file of a snapshot, with a message that adds it or deletes it. */
    static Map<Object, CommitMessage> contents(FileStoreTable table, Snapshot snapshot, boolean add) {
        Map<Object, CommitMessage> contents = new LinkedHashMap<>();
        for (ManifestEntry e : table.store().newScan().withSnapshot(snapshot).plan().files()) {
            List<DataFileMeta> file = Collections.singletonList(e.file()), none = Collections.emptyList();
            DataIncrement change = new DataIncrement(add ? file : none, add ? none : file, none);
            contents.put(e.identifier(), new CommitMessageImpl(
                    e.partition(), e.bucket(), e.totalBuckets(), change, CompactIncrement.emptyIncrement()));
        }
        if (snapshot.indexManifest() == null) return contents;
        for (IndexManifestEntry e : table.store().newIndexFileHandler().readManifest(snapshot.indexManifest())) {
            List<IndexFileMeta> file = Collections.singletonList(e.indexFile());
            DataIncrement change = add ? DataIncrement.indexIncrement(file) : DataIncrement.deleteIndexIncrement(file);
            contents.put(e.indexFile().fileName(), new CommitMessageImpl(
                    e.partition(), e.bucket(), table.coreOptions().bucket(), change, CompactIncrement.emptyIncrement()));
        }
        return contents;
    }

    /** id, next: the snapshot that the reader still needs. */
    static Object consumer(JsonNode c) throws Exception {
        FileStoreTable table = table(c);
        table.consumerManager().resetConsumer(c.get("id").asText(), new Consumer(c.get("next").asLong()));
        return table.consumerManager().consumers();
    }

    // ------------------------------------------------------------------------------------------------ maintenance

    /**
     * retain_max, retain_min, older_than_ms or time_retain_s, max_deletes. Defaults as in the `expire_snapshots`
     * procedure, which never decouples the changelog; via "commit" applies the table's own options as a writer does;
     * with `successor` as a writer of a version after 1.4; via "successor" chooses the range as the versions after 1.4 do, and deletes as this one.
     */
    static Object expire(JsonNode c) throws Exception {
        FileStoreTable table = table(c);
        CoreOptions options = table.store().options();
        if (string(c, "via", "procedure").equals("commit")) {
            ExpireConfig config = options.expireConfig();
            int snapshots = flag(c, "successor")
                    ? expireBySuccessor(table, config, !options.consumerChangelogOnly())
                    : table.newExpireSnapshots().config(config).expire();
            boolean decoupled = options.changelogLifecycleDecoupled();
            return Arrays.asList(snapshots, decoupled ? expireChangelogs(table.newExpireChangelog(), config) : 0);
        }
        ExpireConfig.Builder config = ProcedureUtils.fillInSnapshotOptions(
                options, integer(c, "retain_max"), integer(c, "retain_min"), null, integer(c, "max_deletes"));
        Duration age = age(c);
        if (age != null) config.snapshotTimeRetain(age);
        if (string(c, "via", "procedure").equals("successor")) return expireBySuccessor(table, config.build(), true);
        return table.newExpireSnapshots().config(config.build()).expire();
    }

    /** A snapshot is old when its successor was committed before the cutoff; 1.4 asks for its own time instead. */
    static int expireBySuccessor(FileStoreTable table, ExpireConfig config, boolean consumers) throws Exception {
        SnapshotManager snapshots = table.snapshotManager();
        Long latest = snapshots.latestSnapshotId(), earliest = snapshots.earliestSnapshotId();
        if (latest == null || earliest == null) return 0;
        long id = Math.max(latest - config.getSnapshotRetainMax() + 1, earliest);
        long end = Math.min(latest - config.getSnapshotRetainMin() + 1, earliest + config.getSnapshotMaxDeletes());
        if (consumers) end = Math.min(end, table.consumerManager().minNextSnapshot().orElse(Long.MAX_VALUE));
        long cutoff = System.currentTimeMillis() - config.getSnapshotTimeRetain().toMillis();
        for (; id < end; id++)
            if (snapshots.snapshotExists(id + 1) && snapshots.snapshot(id + 1).timeMillis() >= cutoff) end = id;
        ExpireSnapshotsImpl expire = (ExpireSnapshotsImpl) table.newExpireSnapshots().config(config);
        expire.snapshotDeletion().setChangelogDecoupled(config.isChangelogDecoupled()); // as expire() does
        return expire.expireUntil(earliest, end);
    }

    /** Where the changelog that would be the first to stay does not exist, 1.4 throws; later versions do nothing. */
    static int expireChangelogs(ExpireSnapshots expire, ExpireConfig config) {
        try {
            return expire.config(config).expire();
        } catch (RuntimeException e) {
            if (!(e.getMessage() + "").startsWith("Fails to read changelog from path")) throw e;
            return 0;
        }
    }

    static Object expireChangelogs(JsonNode c) throws Exception {
        ExpireChangelogImpl expire = (ExpireChangelogImpl) table(c).newExpireChangelog();
        if (flag(c, "all")) {
            expire.expireAll();
            return "all";
        }
        ExpireConfig.Builder config = ExpireConfig.builder();
        if (c.hasNonNull("retain_max")) config.changelogRetainMax(c.get("retain_max").asInt());
        if (c.hasNonNull("retain_min")) config.changelogRetainMin(c.get("retain_min").asInt());
        if (c.hasNonNull("max_deletes")) config.changelogMaxDeletes(c.get("max_deletes").asInt());
        Duration age = age(c);
        if (age != null) config.changelogTimeRetain(age);
        return expireChangelogs(expire, config.build());
    }

    /** strategy, formatter, pattern, expiration_time ("7 d"), max_expires. Returns the dropped partitions. */
    static Object expirePartitions(JsonNode c) throws Exception {
        Map<String, String> options = ProcedureUtils.fillInPartitionOptions(
                string(c, "strategy", null), string(c, "formatter", null), string(c, "pattern", null),
                string(c, "expiration_time", null), integer(c, "max_expires"), null);
        FileStoreTable table = table(c).copy(options);
        return table.store().newPartitionExpire("", table).expire(Long.MAX_VALUE);
    }

    static Object expireTags(JsonNode c) throws Exception {
        FileStoreTable table = table(c).copy(Collections.singletonMap("tag.time-expire-enabled", "true"));
        TagTimeExpire expire = table.store().newTagAutoManager(table).getTagTimeExpire();
        if (c.hasNonNull("older_than_ms")) {
            Instant cutoff = Instant.ofEpochMilli(c.get("older_than_ms").asLong());
            expire.withOlderThanTime(LocalDateTime.ofInstant(cutoff, ZoneId.systemDefault()));
        }
        return expire.expire();
    }

    /** older_than_ms, dry_run, quiet. Returns count, bytes and, unless quiet, the files. */
    static Object orphans(JsonNode c) throws Exception {
        FileStoreTable table = table(c);
        long cutoff = c.hasNonNull("older_than_ms")
                ? c.get("older_than_ms").asLong()
                : OrphanFilesClean.olderThanMillis(null);
        CleanOrphanFilesResult cleaned = new LocalOrphanFilesClean(table, cutoff, flag(c, "dry_run")).clean();
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("count", cleaned.getDeletedFileCount());
        result.put("bytes", cleaned.getDeletedFileTotalLenInBytes());
        if (!flag(c, "quiet")) {
            Set<String> files = new TreeSet<>();
            for (Path path : cleaned.getDeletedFilesPath()) files.add(relative(table, path));
            result.put("files", files);
        }
        return result;
    }

    // ------------------------------------------------------------------------------------------------ reading

    /**
     * versions: options of a reader that name one each, or `rollback.timestamp` and `rollback.watermark` for where a
     * rollback would go. For each the snapshot's id, -1 for none, or "failed: ...".
     */
    static Object travel(JsonNode c) throws Exception {
        FileStoreTable table = table(c);
        List<Object> found = new ArrayList<>();
        for (JsonNode version : c.get("versions")) {
            Map<String, String> options = stringMap(version);
            found.add(orFailure(() -> {
                Snapshot snapshot = travel(table, options);
                return snapshot == null ? -1L : snapshot.id();
            }));
        }
        return found;
    }

    static Snapshot travel(FileStoreTable table, Map<String, String> options) {
        SnapshotManager snapshots = table.snapshotManager();
        String time = options.get("rollback.timestamp"), watermark = options.get("rollback.watermark");
        if (time != null) return snapshots.earlierOrEqualTimeMills(Long.parseLong(time));
        if (watermark != null) return snapshots.earlierOrEqualWatermark(Long.parseLong(watermark));
        return TimeTravelUtil.tryTravelToSnapshot(Options.fromMap(options), snapshots, table.tagManager()).orElse(null);
    }

    /** snapshot or tag: the number of rows and a checksum that does not depend on their order. */
    static Object scan(JsonNode c) throws Exception {
        FileStoreTable table = table(c);
        if (c.hasNonNull("snapshot")) table = at(table, "scan.snapshot-id", c.get("snapshot").asText());
        if (c.hasNonNull("tag")) table = at(table, "scan.tag-name", c.get("tag").asText());
        return scan(table, null);
    }

    static FileStoreTable at(FileStoreTable table, String option, String value) {
        return table.copy(Collections.singletonMap(option, value));
    }

    static Map<String, Object> scan(FileStoreTable table, List<Split> splits) throws Exception {
        RowType type = table.rowType();
        InternalRow.FieldGetter[] getters = new InternalRow.FieldGetter[type.getFieldCount()];
        for (int i = 0; i < getters.length; i++) getters[i] = InternalRow.createFieldGetter(type.getTypeAt(i), i);
        long[] sums = {0, 0};
        ReadBuilder builder = table.newReadBuilder();
        if (splits == null) splits = builder.newScan().plan().splits();
        try (IOManager io = IOManager.create(spillDirectory)) {
            builder.newRead().withIOManager(io).createReader(splits).forEachRemaining(row -> {
                StringBuilder text = new StringBuilder();
                for (InternalRow.FieldGetter getter : getters) text.append(getter.getFieldOrNull(row)).append('|');
                sums[0]++;
                sums[1] += text.toString().hashCode();
            });
        }
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("rows", sums[0]);
        result.put("checksum", sums[1]);
        return result;
    }

    static List<String> branches(FileStoreTable main) {
        List<String> branches = new ArrayList<>(main.branchManager().branches());
        branches.add("main");
        return branches;
    }

    static FileStoreTable onBranch(FileStoreTable main, String branch) {
        return branch.equals("main") ? main : main.switchToBranch(branch);
    }

    interface Scan {
        Object run() throws Exception;
    }

    static Object orFailure(Scan scan) {
        try {
            return scan.run();
        } catch (Throwable e) {
            return "failed: " + String.valueOf(e.getMessage()).split("\n")[0];
        }
    }

    /** Every snapshot and every tag of every branch: {"main/snapshot-3": {rows, checksum} or "failed: ..."}. */
    static Object scanAll(JsonNode c) throws Exception {
        Map<String, Object> results = new TreeMap<>();
        FileStoreTable main = table(c);
        for (String branch : branches(main)) {
            FileStoreTable table = onBranch(main, branch);
            Iterator<Snapshot> snapshots = table.snapshotManager().snapshots();
            while (snapshots.hasNext()) {
                String id = String.valueOf(snapshots.next().id());
                results.put(branch + "/snapshot-" + id, orFailure(() -> scan(at(table, "scan.snapshot-id", id), null)));
            }
            for (Pair<Tag, String> tag : table.tagManager().tagObjects()) {
                String name = tag.getRight();
                // 1.4.2 looks for scan.tag-name among main's tags only
                results.put(branch + "/tag-" + name, orFailure(branch.equals("main")
                        ? () -> scan(at(table, "scan.tag-name", name), null)
                        : () -> scan(table, reader(table).withSnapshot(tag.getLeft().trimToSnapshot())
                                .withMode(ScanMode.ALL).read().splits())));
            }
        }
        return results;
    }

    /** As a batch scan makes its reader. */
    static SnapshotReader reader(FileStoreTable table) {
        SnapshotReader reader = table.newSnapshotReader();
        boolean skips = !table.primaryKeys().isEmpty() && table.coreOptions().batchScanSkipLevel0();
        return skips ? reader.withLevelFilter(level -> level > 0).enableValueFilter() : reader;
    }

    /** What the changelog (or the delta) says between two snapshots: from, to, mode. */
    static Object changes(JsonNode c) throws Exception {
        Map<String, String> options = new HashMap<>();
        options.put("incremental-between", c.get("from").asText() + "," + c.get("to").asText());
        options.put("incremental-between-scan-mode", string(c, "mode", "changelog"));
        return scan(table(c).copy(options), null);
    }

    /** What a streaming reader that goes on at commit `next` reads of this one commit: a snapshot or a changelog. */
    static Object stream(JsonNode c) throws Exception {
        FileStoreTable table = table(c);
        StreamTableScan scan = table.newReadBuilder().newStreamScan();
        scan.restore(c.get("next").asLong());
        return scan(table, scan.plan().splits());
    }

    /**
     * What every root (snapshot, tag, changelog; all branches) refers to, read with the engine's own classes: the
     * independent truth for "may this file go". Paths are relative to the table, absolute outside of it.
     */
    static Object references(JsonNode c) throws Exception {
        List<Object> roots = new ArrayList<>();
        FileStoreTable main = table(c);
        for (String branch : branches(main)) {
            FileStoreTable table = onBranch(main, branch);
            List<Snapshot> snapshots = new ArrayList<>();
            table.snapshotManager().snapshots().forEachRemaining(snapshots::add);
            snapshots.sort(Comparator.comparingLong(Snapshot::id));
            for (Snapshot s : snapshots) roots.add(references(table, branch, "snapshot", String.valueOf(s.id()), s));
            for (Pair<Tag, String> tag : table.tagManager().tagObjects())
                roots.add(references(table, branch, "tag", tag.getRight(), tag.getLeft()));
            Iterator<Changelog> changelogs = table.changelogManager().changelogs();
            while (changelogs.hasNext()) {
                Changelog x = changelogs.next();
                roots.add(references(table, branch, "changelog", String.valueOf(x.id()), x));
            }
        }
        return roots;
    }

    static Map<String, Object> references(
            FileStoreTable table, String branch, String kind, String name, Snapshot snapshot) {
        Map<String, Object> root = new LinkedHashMap<>();
        root.put("branch", branch);
        root.put("kind", kind);
        root.put("name", name);
        root.put("snapshot_id", snapshot.id());
        root.put("commit_kind", snapshot.commitKind().name());
        root.put("time_ms", snapshot.timeMillis());
        try {
            Set<String> files = new TreeSet<>();
            boolean withChangelog = snapshot.changelogManifestList() != null;
            if (!kind.equals("changelog")) {
                addState(table, snapshot, files);
                root.putAll(deltaFacts(table, snapshot));
            } else if (!withChangelog && table.coreOptions().changelogProducer() == ChangelogProducer.NONE) {
                addList(table, snapshot.deltaManifestList(), files);
                for (ManifestEntry e : entries(table, snapshot.deltaManifestList()))
                    if (e.kind() == FileKind.ADD && e.file().fileSource().orElse(FileSource.APPEND) == FileSource.APPEND)
                        addData(table, e, files);
            }
            root.put("files", files);
            Set<String> changelog = new TreeSet<>();
            if (withChangelog && !kind.equals("tag")) { // a tag's changelog goes with its snapshot
                addList(table, snapshot.changelogManifestList(), changelog);
                for (ManifestEntry e : entries(table, snapshot.changelogManifestList()))
                    if (e.kind() == FileKind.ADD) addData(table, e, changelog);
            }
            root.put("changelog", changelog);
        } catch (Throwable e) {
            root.put("error", e.toString());
        }
        return root;
    }

    static void addState(FileStoreTable table, Snapshot snapshot, Set<String> files) {
        FileStore<?> store = table.store();
        addList(table, snapshot.baseManifestList(), files);
        addList(table, snapshot.deltaManifestList(), files);
        for (ManifestEntry e : store.newScan().withSnapshot(snapshot).plan().files()) addData(table, e, files);
        if (snapshot.indexManifest() != null) {
            files.add(relative(table, store.newIndexFileHandler().indexManifestFilePath(snapshot.indexManifest())));
            for (IndexManifestEntry e : store.newIndexFileHandler().readManifest(snapshot.indexManifest()))
                files.add(relative(table, store.newIndexFileHandler().filePath(e)));
        }
        if (snapshot.statistics() != null)
            files.add(relative(table, store.pathFactory().statsFileFactory().toPath(snapshot.statistics())));
    }

    static void addList(FileStoreTable table, String list, Set<String> files) {
        files.add(relative(table, table.store().pathFactory().toManifestListPath(list)));
        for (ManifestFileMeta m : table.store().manifestListFactory().create().read(list))
            files.add(relative(table, table.store().pathFactory().toManifestFilePath(m.fileName())));
    }

    static void addData(FileStoreTable table, ManifestEntry e, Set<String> files) {
        DataFilePathFactory paths = table.store().pathFactory().createDataFilePathFactory(e.partition(), e.bucket());
        for (Path path : e.file().collectFiles(paths)) files.add(relative(table, path));
    }

    static List<ManifestEntry> entries(FileStoreTable table, String list) {
        List<ManifestEntry> entries = new ArrayList<>();
        for (ManifestFileMeta m : table.store().manifestListFactory().create().read(list))
            entries.addAll(table.store().manifestFileFactory().create().read(m.fileName()));
        return entries;
    }

    /** How a commit changed the table: files added, deleted, moved to another level; manifests that it merged. */
    static Map<String, Object> deltaFacts(FileStoreTable table, Snapshot snapshot) {
        Set<String> added = new HashSet<>(), deleted = new HashSet<>();
        for (ManifestEntry e : entries(table, snapshot.deltaManifestList()))
            (e.kind() == FileKind.ADD ? added : deleted).add(e.partition() + "/" + e.bucket() + "/" + e.fileName());
        Set<String> upgraded = new HashSet<>(added);
        upgraded.retainAll(deleted);
        List<String> base = new ArrayList<>();
        for (ManifestFileMeta m : table.store().manifestListFactory().create().read(snapshot.baseManifestList()))
            base.add(m.fileName());
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("added", added.size());
        facts.put("deleted", deleted.size());
        facts.put("upgraded", upgraded.size());
        facts.put("base_manifests", base);
        facts.put("index_manifest", snapshot.indexManifest() != null);
        facts.put("statistics", snapshot.statistics() != null);
        return facts;
    }

    static Object snapshots(JsonNode c) throws Exception {
        FileStoreTable table = table(c);
        List<Object> snapshots = new ArrayList<>();
        List<Snapshot> all = new ArrayList<>();
        table.snapshotManager().snapshots().forEachRemaining(all::add);
        all.sort(Comparator.comparingLong(Snapshot::id));
        for (Snapshot s : all)
            snapshots.add(Arrays.asList(
                    s.id(), s.commitKind().name(), s.schemaId(), s.timeMillis(), s.totalRecordCount()));
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("snapshots", snapshots);
        result.put("tags", tags(table));
        result.put("branches", table.branchManager().branches());
        return result;
    }

    /** Everything under the table through the engine's file system; directories end in "/". */
    static Object files(JsonNode c) throws Exception {
        FileStoreTable table = table(c);
        Set<String> files = new TreeSet<>();
        ArrayDeque<Path> directories = new ArrayDeque<>();
        directories.add(table.location());
        while (!directories.isEmpty()) {
            for (FileStatus status : table.fileIO().listStatus(directories.poll())) {
                if (status.isDir()) directories.add(status.getPath());
                files.add(relative(table, status.getPath()) + (status.isDir() ? "/" : ""));
            }
        }
        return files;
    }

    static String relative(FileStoreTable table, Path path) {
        String root = table.location().toUri().getPath(), full = path.toUri().getPath();
        return full.startsWith(root + "/") ? full.substring(root.length() + 1) : full;
    }

    /** Peak and present resident memory (KiB, as the kernel says) and the heap in use (MiB). */
    static Object memory(JsonNode c) throws Exception {
        Map<String, Object> result = new LinkedHashMap<>();
        for (String line : Files.readAllLines(Paths.get("/proc/self/status")))
            if (line.startsWith("VmHWM") || line.startsWith("VmRSS"))
                result.put(line.split(":")[0], line.replaceAll("\\D+", ""));
        Runtime runtime = Runtime.getRuntime();
        result.put("heap_used_mib", (runtime.totalMemory() - runtime.freeMemory()) >> 20);
        return result;
    }
}
