// The Java client of Kafka 3 and 4 as a driver.

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;

final class Driver {
    private Driver() {}

    public static void main(String[] arguments) throws Exception {
        Map<String, Jobs.Verb> verbs = new HashMap<>();
        RecordVerbs.addTo(verbs);
        AdminVerbs.addTo(verbs);
        TransactionVerbs.addTo(
                verbs,
                (producer, offsets, group) ->
                        producer.sendOffsetsToTransaction(
                                offsets, new ConsumerGroupMetadata(group)));
        verbs.put(
                "offset_at",
                job ->
                        job.get("at").asLong() == Jobs.MAX_TIMESTAMP
                                ? AdminVerbs.offsetOfMaxTimestamp(job, RecordVerbs.partition(job))
                                : RecordVerbs.offsetAt(job));
        Jobs.serve(verbs);
    }
}
