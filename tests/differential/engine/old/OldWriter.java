// Writes two small tables with Paimon 0.9: below the warehouse that the first argument names, in database `d`.
import java.util.Collections;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.Path;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.types.DataTypes;

public class OldWriter {
    public static void main(String[] args) throws Exception {
        Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(new Path(args[0])));
        catalog.createDatabase("d", true);
        for (boolean hasKey : new boolean[] {false, true}) {
            Identifier name = Identifier.create("d", hasKey ? "old_primary_key" : "old_append");
            Schema.Builder schema = Schema.newBuilder()
                    .column("p", hasKey ? DataTypes.STRING().notNull() : DataTypes.STRING())
                    .column("id", hasKey ? DataTypes.INT().notNull() : DataTypes.INT())
                    .column("v", DataTypes.STRING())
                    .partitionKeys("p")
                    .option("bucket", hasKey ? "2" : "-1")
                    .option("snapshot.num-retained.min", "1000");
            if (hasKey) schema.primaryKey("p", "id");
            catalog.createTable(name, schema.build(), false);
            for (int commit = 0; commit < 6; commit++) write(catalog.getTable(name), commit);
        }
        catalog.close();
    }

    static void write(Table table, int commit) throws Exception {
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        if (commit == 4) builder.withOverwrite(Collections.singletonMap("p", "c"));
        try (IOManager io = IOManager.create(System.getProperty("java.io.tmpdir"));
                BatchTableWrite write = builder.newWrite();
                BatchTableCommit commits = builder.newCommit()) {
            write.withIOManager(io);
            for (String partition : commit == 4 ? new String[] {"c"} : new String[] {"a", "b", "c"})
                for (int id = 0; id < 4; id++)
                    write.write(GenericRow.of(
                            BinaryString.fromString(partition), id, BinaryString.fromString("v" + commit)));
            commits.commit(write.prepareCommit());
        }
    }
}
