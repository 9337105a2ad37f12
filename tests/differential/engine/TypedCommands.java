// Commands of the driver about typed rows: tables of any types, schema changes of any kind, and the rows of a version.
//
// A value is JSON that loses nothing: a decimal is its text, a double its bits as text, bytes are hexadecimal, a time
// stamp is [milliseconds, nanoseconds of the millisecond], a row or an array is a list, a map is a list of pairs.
import java.math.BigDecimal;
import java.util.*;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.GenericArray;
import org.apache.paimon.data.GenericMap;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalArray;
import org.apache.paimon.data.InternalMap;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.data.serializer.InternalRowSerializer;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.io.CompactIncrement;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.io.DataIncrement;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaChange;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.CommitMessageImpl;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.types.ArrayType;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeJsonParser;
import org.apache.paimon.types.DataTypes;
import org.apache.paimon.types.DecimalType;
import org.apache.paimon.types.MapType;
import org.apache.paimon.types.MultisetType;
import org.apache.paimon.types.RowType;

class TypedCommands {
    static void register(Map<String, EngineDriver.Command> commands) {
        commands.put("typed_create", TypedCommands::create);
        commands.put("typed_alter", TypedCommands::alter);
        commands.put("typed_put", TypedCommands::put);
        commands.put("typed_rows", TypedCommands::rows);
        commands.put("typed_cow_delete", TypedCommands::copyOnWriteDelete);
        commands.put("typed_filters", TypedCommands::filters);
    }

    /** columns [[name, type as in schema documents]...], primary_keys, partition_keys, options. */
    static Object create(JsonNode c) throws Exception {
        EngineDriver.catalog.createDatabase(EngineDriver.identifier(c).getDatabaseName(), true);
        Set<String> keys = new HashSet<>(EngineDriver.stringList(c.get("primary_keys")));
        Schema.Builder schema = Schema.newBuilder();
        for (JsonNode column : c.get("columns")) {
            DataType type = DataTypeJsonParser.parseDataType(column.get(1));
            schema.column(column.get(0).asText(), keys.contains(column.get(0).asText()) ? type.notNull() : type);
        }
        schema.primaryKey(EngineDriver.stringList(c.get("primary_keys")));
        schema.partitionKeys(EngineDriver.stringList(c.get("partition_keys")));
        EngineDriver.stringMap(c.get("options")).forEach(schema::option);
        EngineDriver.catalog.createTable(EngineDriver.identifier(c), schema.build(), false);
        return EngineDriver.table(c).location().toString();
    }

    /** changes [[kind, [name...], argument]...]: add, drop, rename, type, nullable, first, after. Returns the schema's id. */
    static Object alter(JsonNode c) throws Exception {
        List<SchemaChange> changes = new ArrayList<>();
        for (JsonNode change : c.get("changes")) {
            String[] names = EngineDriver.stringList(change.get(1)).toArray(new String[0]);
            JsonNode argument = change.get(2);
            switch (change.get(0).asText()) {
                case "add":
                    changes.add(SchemaChange.addColumn(names, DataTypeJsonParser.parseDataType(argument), null, null));
                    break;
                case "drop":
                    changes.add(SchemaChange.dropColumn(names));
                    break;
                case "rename":
                    changes.add(SchemaChange.renameColumn(names, argument.asText()));
                    break;
                case "type":
                    changes.add(SchemaChange.updateColumnType(
                            names, DataTypeJsonParser.parseDataType(argument), true));
                    break;
                case "nullable":
                    changes.add(SchemaChange.updateColumnNullability(names, argument.asBoolean()));
                    break;
                case "default":
                    changes.add(SchemaChange.updateColumnDefaultValue(names, argument.asText()));
                    break;
                case "first":
                    changes.add(SchemaChange.updateColumnPosition(SchemaChange.Move.first(names[0])));
                    break;
                case "after":
                    changes.add(SchemaChange.updateColumnPosition(
                            SchemaChange.Move.after(names[0], argument.asText())));
                    break;
                default:
                    throw new IllegalArgumentException("no change " + change);
            }
        }
        EngineDriver.catalog.alterTable(EngineDriver.identifier(c), changes, false);
        return EngineDriver.table(c).schema().id();
    }

    /**
     * rows [[value...]...] in the order of the columns; compact; kinds [number...] of the rows; overwrite: the partitions of
     * the rows hold nothing else afterwards; hold: `commit_held` commits it. Returns the latest snapshot's id.
     */
    static Object put(JsonNode c) throws Exception {
        FileStoreTable table = EngineDriver.table(c);
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        if (EngineDriver.flag(c, "overwrite")) builder.withOverwrite(Collections.emptyMap());
        List<CommitMessage> messages;
        try (IOManager io = IOManager.create(EngineDriver.spillDirectory); BatchTableWrite write = builder.newWrite()) {
            write.withIOManager(io);
            KeyedCommands.write(c, table, write);
            if (EngineDriver.flag(c, "compact")) EngineDriver.compactBuckets(table, write, true);
            messages = write.prepareCommit();
        }
        return EngineDriver.commitOrHold(c, table, builder, messages);
    }

    /**
     * column (BIGINT), numbers: deletes the rows with these numbers as Spark's DELETE does without vectors: data files
     * with such rows leave, and a writer gets their other rows.
     */
    static Object copyOnWriteDelete(JsonNode c) throws Exception {
        FileStoreTable table = EngineDriver.table(c).copy(Collections.singletonMap("write-only", "true"));
        int column = table.rowType().getFieldIndex(c.get("column").asText());
        Set<Long> numbers = new HashSet<>();
        for (JsonNode number : c.get("numbers")) numbers.add(number.asLong());
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        InternalRowSerializer copier = new InternalRowSerializer(table.rowType());
        List<CommitMessage> messages = new ArrayList<>();
        try (IOManager io = IOManager.create(EngineDriver.spillDirectory); BatchTableWrite write = builder.newWrite()) {
            write.withIOManager(io);
            for (Split split : table.newReadBuilder().newScan().plan().splits()) {
                DataSplit whole = (DataSplit) split;
                for (DataFileMeta file : whole.dataFiles()) {
                    DataSplit one = DataSplit.builder().withSnapshot(whole.snapshotId())
                            .withPartition(whole.partition()).withBucket(whole.bucket())
                            .withBucketPath(whole.bucketPath()).withTotalBuckets(whole.totalBuckets())
                            .rawConvertible(true).withDataFiles(Collections.singletonList(file)).build();
                    List<InternalRow> rows = new ArrayList<>();
                    table.newReadBuilder().newRead().withIOManager(io).createReader(one)
                            .forEachRemaining(row -> rows.add(copier.copy(row)));
                    if (!rows.removeIf(row -> numbers.contains(row.getLong(column)))) continue;
                    for (InternalRow row : rows) write.write(row);
                    messages.add(new CommitMessageImpl(
                            whole.partition(), whole.bucket(), whole.totalBuckets(),
                            new DataIncrement(
                                    Collections.emptyList(), Collections.singletonList(file), Collections.emptyList()),
                            CompactIncrement.emptyIncrement()));
                }
            }
            messages.addAll(0, write.prepareCommit());
        }
        return EngineDriver.commitOrHold(c, table, builder, messages);
    }

    /** table or location, options that name a version: {columns: [[name, type]...], rows: [[value...]...]}. */
    static Object rows(JsonNode c) throws Exception {
        FileStoreTable table;
        if (c.has("location")) {
            table = FileStoreTableFactory.create(LocalFileIO.create(), new Path(c.get("location").asText()));
            if (c.hasNonNull("branch")) table = table.switchToBranch(c.get("branch").asText());
            table = table.copy(EngineDriver.stringMap(c.get("options")));
        } else {
            table = EngineDriver.table(c);
        }
        RowType type = table.rowType();
        ReadBuilder builder = table.newReadBuilder();
        List<Object> rows = new ArrayList<>();
        try (IOManager io = IOManager.create(EngineDriver.spillDirectory)) {
            builder.newRead().withIOManager(io).createReader(builder.newScan().plan().splits())
                    .forEachRemaining(row -> rows.add(shown(row, type)));
        }
        List<Object> columns = new ArrayList<>();
        type.getFields().forEach(field -> columns.add(Arrays.asList(field.name(), field.type().asSQLString())));
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("columns", columns);
        result.put("rows", rows);
        return result;
    }

    /**
     * literals [[column, [value...]]...]: whether each filter of a column finds what a look at every row finds. Returns
     * {filters: how many were tried, empty: of how many the scan opens no file, wrong: [what differs...]}.
     */
    static Object filters(JsonNode c) throws Exception {
        FileStoreTable table = EngineDriver.table(c);
        RowType type = table.rowType();
        List<InternalRow> rows = new ArrayList<>();
        InternalRowSerializer copier = new InternalRowSerializer(type);
        table.newReadBuilder().newRead().createReader(table.newReadBuilder().newScan().plan().splits())
                .forEachRemaining(row -> rows.add(copier.copy(row)));
        List<String> wrong = new ArrayList<>();
        int tried = 0, empty = 0;
        for (JsonNode stated : c.get("literals")) {
            int column = type.getFieldIndex(stated.get(0).asText());
            PredicateBuilder builder = new PredicateBuilder(type);
            List<Predicate> predicates = new ArrayList<>();
            predicates.add(builder.isNull(column));
            predicates.add(builder.isNotNull(column));
            for (JsonNode json : stated.get(1)) {
                Object literal = value(json, type.getTypeAt(column));
                predicates.add(builder.equal(column, literal));
                predicates.add(builder.notEqual(column, literal));
                predicates.add(builder.lessThan(column, literal));
                predicates.add(builder.lessOrEqual(column, literal));
                predicates.add(builder.greaterThan(column, literal));
                predicates.add(builder.greaterOrEqual(column, literal));
            }
            for (Predicate predicate : predicates) {
                List<String> expected = new ArrayList<>(), found = new ArrayList<>();
                for (InternalRow row : rows) if (predicate.test(row)) expected.add(shown(row, type).toString());
                ReadBuilder filtered = table.newReadBuilder().withFilter(predicate);
                List<Split> splits = filtered.newScan().plan().splits();
                filtered.newRead().executeFilter().createReader(splits)
                        .forEachRemaining(row -> found.add(shown(row, type).toString()));
                tried++;
                if (splits.isEmpty()) empty++;
                Collections.sort(expected);
                Collections.sort(found);
                if (!expected.equals(found))
                    wrong.add(predicate + ": expected " + expected.size() + " rows, found " + found.size());
            }
        }
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("filters", tried);
        result.put("empty", empty);
        result.put("wrong", wrong);
        return result;
    }

    // ------------------------------------------------------------------------------------------------ values

    static List<Object> shown(InternalRow row, RowType type) {
        List<Object> values = new ArrayList<>();
        for (int i = 0; i < type.getFieldCount(); i++)
            values.add(shown(InternalRow.createFieldGetter(type.getTypeAt(i), i).getFieldOrNull(row), type.getTypeAt(i)));
        return values;
    }

    static List<Object> shown(InternalArray array, DataType type) {
        InternalArray.ElementGetter getter = InternalArray.createElementGetter(type);
        List<Object> values = new ArrayList<>();
        for (int i = 0; i < array.size(); i++) values.add(shown(getter.getElementOrNull(array, i), type));
        return values;
    }

    static List<Object> shown(InternalMap map, DataType key, DataType value) {
        List<Object> keys = shown(map.keyArray(), key), values = shown(map.valueArray(), value);
        List<Object> pairs = new ArrayList<>();
        for (int i = 0; i < keys.size(); i++) pairs.add(Arrays.asList(keys.get(i), values.get(i)));
        return pairs;
    }

    static Object shown(Object value, DataType type) {
        if (value == null) return null;
        switch (type.getTypeRoot()) {
            case CHAR:
            case VARCHAR:
                return value.toString();
            case BINARY:
            case VARBINARY:
                StringBuilder text = new StringBuilder();
                for (byte each : (byte[]) value) text.append(String.format("%02x", each));
                return text.toString();
            case DECIMAL:
                return ((Decimal) value).toBigDecimal().toPlainString();
            case FLOAT:
                return String.valueOf(Float.floatToIntBits((Float) value));
            case DOUBLE:
                return String.valueOf(Double.doubleToLongBits((Double) value));
            case TIMESTAMP_WITHOUT_TIME_ZONE:
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                return Arrays.asList(((Timestamp) value).getMillisecond(), ((Timestamp) value).getNanoOfMillisecond());
            case ARRAY:
                return shown((InternalArray) value, ((ArrayType) type).getElementType());
            case MAP:
                return shown((InternalMap) value, ((MapType) type).getKeyType(), ((MapType) type).getValueType());
            case MULTISET:
                return shown((InternalMap) value, ((MultisetType) type).getElementType(), DataTypes.INT());
            case ROW:
                return shown((InternalRow) value, (RowType) type);
            default:
                return value instanceof Number || value instanceof Boolean ? value : value.toString();
        }
    }

    static GenericRow row(JsonNode values, RowType type) {
        GenericRow row = new GenericRow(type.getFieldCount());
        for (int i = 0; i < type.getFieldCount(); i++) row.setField(i, value(values.get(i), type.getTypeAt(i)));
        return row;
    }

    static Object value(JsonNode json, DataType type) {
        if (json.isNull()) return null;
        switch (type.getTypeRoot()) {
            case CHAR:
            case VARCHAR:
                return BinaryString.fromString(json.asText());
            case BINARY:
            case VARBINARY:
                byte[] bytes = new byte[json.asText().length() / 2];
                for (int i = 0; i < bytes.length; i++)
                    bytes[i] = (byte) Integer.parseInt(json.asText().substring(2 * i, 2 * i + 2), 16);
                return bytes;
            case BOOLEAN:
                return json.asBoolean();
            case TINYINT:
                return (byte) json.asInt();
            case SMALLINT:
                return (short) json.asInt();
            case INTEGER:
            case DATE:
            case TIME_WITHOUT_TIME_ZONE:
                return json.asInt();
            case BIGINT:
                return json.asLong();
            case FLOAT:
                return Float.intBitsToFloat(Integer.parseInt(json.asText()));
            case DOUBLE:
                return Double.longBitsToDouble(Long.parseLong(json.asText()));
            case DECIMAL:
                DecimalType decimal = (DecimalType) type;
                return Decimal.fromBigDecimal(
                        new BigDecimal(json.asText()), decimal.getPrecision(), decimal.getScale());
            case TIMESTAMP_WITHOUT_TIME_ZONE:
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                return Timestamp.fromEpochMillis(json.get(0).asLong(), json.get(1).asInt());
            case ARRAY:
                Object[] elements = new Object[json.size()];
                for (int i = 0; i < elements.length; i++)
                    elements[i] = value(json.get(i), ((ArrayType) type).getElementType());
                return new GenericArray(elements);
            case MAP:
                return map(json, ((MapType) type).getKeyType(), ((MapType) type).getValueType());
            case MULTISET:
                return map(json, ((MultisetType) type).getElementType(), DataTypes.INT());
            case ROW:
                return row(json, (RowType) type);
            default:
                throw new IllegalArgumentException("no values of " + type);
        }
    }

    static GenericMap map(JsonNode pairs, DataType key, DataType value) {
        Map<Object, Object> map = new LinkedHashMap<>();
        for (JsonNode pair : pairs) map.put(value(pair.get(0), key), value(pair.get(1), value));
        return new GenericMap(map);
    }
}
