// The Java client of Kafka 2 as a driver, for records and transactions alone.

import java.util.HashMap;
import java.util.Map;

final class RecordsDriver {
    private RecordsDriver() {}

    public static void main(String[] arguments) throws Exception {
        Map<String, Jobs.Verb> verbs = new HashMap<>();
        RecordVerbs.addTo(verbs);
        TransactionVerbs.addTo(
                verbs,
                (producer, offsets, group) -> producer.sendOffsetsToTransaction(offsets, group));
        Jobs.serve(verbs);
    }
}
