// Commands of the driver about tables with primary keys: rows of each kind, and writers that stay open between commits.
import java.util.*;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.index.HashBucketAssigner;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.RowKeyExtractor;
import org.apache.paimon.table.sink.StreamTableCommit;
import org.apache.paimon.table.sink.StreamTableWrite;
import org.apache.paimon.table.sink.StreamWriteBuilder;
import org.apache.paimon.table.sink.TableWrite;
import org.apache.paimon.types.RowKind;

class KeyedCommands {
    static void register(Map<String, EngineDriver.Command> commands) {
        commands.put("writer_open", KeyedCommands::open);
        commands.put("writer_put", KeyedCommands::put);
        commands.put("writer_commit", KeyedCommands::commit);
        commands.put("writer_close", KeyedCommands::close);
    }

    interface Sink {
        void write(GenericRow row) throws Exception;
    }

    /** What takes rows to their buckets, dynamic ones too. */
    static Sink sink(FileStoreTable table, TableWrite write) {
        if (table.bucketMode() != BucketMode.HASH_DYNAMIC) return write::write;
        RowKeyExtractor extractor = table.createRowKeyExtractor();
        HashBucketAssigner assigner = new HashBucketAssigner(
                table.snapshotManager(), EngineDriver.COMMIT_USER, table.store().newIndexFileHandler(), 1, 1, 0,
                table.coreOptions().dynamicBucketTargetRowNum(), table.coreOptions().dynamicBucketMaxBuckets());
        return row -> {
            extractor.setRecord(row);
            int hash = extractor.trimmedPrimaryKey().hashCode();
            write.write(row, assigner.assign(extractor.partition(), hash));
        };
    }

    /** rows [[value...]...] as of `typed_put`, kinds [number...]: without them they are +I. */
    static void write(JsonNode c, FileStoreTable table, TableWrite write) throws Exception {
        Sink sink = sink(table, write);
        int number = 0;
        for (JsonNode values : c.get("rows")) {
            GenericRow row = TypedCommands.row(values, table.rowType());
            if (c.has("kinds")) row.setRowKind(RowKind.fromByteValue((byte) c.get("kinds").get(number).asInt()));
            sink.write(row);
            number++;
        }
    }

    static class Writer {
        final FileStoreTable table;
        final IOManager io = IOManager.create(EngineDriver.spillDirectory);
        final StreamTableWrite write;
        final StreamTableCommit commit;
        long commits;

        Writer(FileStoreTable table) {
            this.table = table;
            StreamWriteBuilder builder = table.newStreamWriteBuilder().withCommitUser(UUID.randomUUID().toString());
            write = builder.newWrite();
            write.withIOManager(io);
            commit = builder.newCommit();
        }
    }

    static final Map<String, Writer> WRITERS = new HashMap<>();

    /** name: a writer that keeps its view of the files of a bucket from one commit to the next. */
    static Object open(JsonNode c) throws Exception {
        WRITERS.put(c.get("name").asText(), new Writer(EngineDriver.table(c)));
        return null;
    }

    /** name; rows, kinds. */
    static Object put(JsonNode c) throws Exception {
        Writer writer = WRITERS.get(c.get("name").asText());
        write(c, writer.table, writer.write);
        return null;
    }

    /** name; compact "none" (what it does by itself), "minor" or "full", of every bucket. Returns the newest snapshot's id. */
    static Object commit(JsonNode c) throws Exception {
        Writer writer = WRITERS.get(c.get("name").asText());
        String compact = EngineDriver.string(c, "compact", "none");
        if (!compact.equals("none")) EngineDriver.compactBuckets(writer.table, writer.write, compact.equals("full"));
        writer.commits++;
        writer.commit.commit(writer.commits, writer.write.prepareCommit(true, writer.commits));
        return writer.table.snapshotManager().latestSnapshotId();
    }

    static Object close(JsonNode c) throws Exception {
        Writer writer = WRITERS.remove(c.get("name").asText());
        writer.write.close();
        writer.commit.close();
        writer.io.close();
        return null;
    }
}
