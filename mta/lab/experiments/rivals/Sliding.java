import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

/**
 * The maximum of each number's window, by the OVER window of Flink's SQL in a streaming job in this JVM.
 *
 * <p>Arguments: a CSV file of all rows, the rows, the window, and the attribute of time by which they are in order.
 * Says "ready" when a first job is through, over all rows too, so that Java has compiled what the second one runs; and
 * in the end the seconds of the second one and its last result. Then waits, so that its memory can be looked at.
 */
public final class Sliding {
    public static void main(String[] arguments) throws Exception {
        TableEnvironment flink = TableEnvironment.create(
                EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(settings()).build());
        String file = arguments[0], window = arguments[2], time = arguments[3];
        long rows = Long.parseLong(arguments[1]);
        last(flink, "warming", file, rows, window, time);
        System.out.println("ready");
        long began = System.nanoTime();
        double result = last(flink, "numbers", file, rows, window, time);
        System.out.println((System.nanoTime() - began) / 1e9 + " " + result);
        System.in.read();
    }

    private static Configuration settings() {
        Configuration settings = new Configuration();
        settings.setString("parallelism.default", "1");
        settings.setString("pipeline.object-reuse", "true");
        return settings;
    }

    /** Of the rows only the last one leaves Flink. */
    private static double last(
            TableEnvironment flink, String table, String file, long rows, String window, String time)
            throws Exception {
        flink.executeSql(String.format(
                "CREATE TABLE %s (i BIGINT, x DOUBLE, k AS 0, %s)"
                        + " WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '%s')",
                table, time, file));
        String frame = String.format(
                "PARTITION BY k ORDER BY ts ROWS BETWEEN %d PRECEDING AND CURRENT ROW", Long.parseLong(window) - 1);
        String query = String.format(
                "SELECT peak FROM (SELECT i, MAX(x) OVER (%s) AS peak FROM %s) WHERE i = %d", frame, table, rows - 1);
        try (CloseableIterator<Row> results = flink.executeSql(query).collect()) {
            return (Double) results.next().getField(0);
        }
    }
}
