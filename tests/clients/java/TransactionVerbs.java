// Transactions with the Java client, from version 2 to the present one.

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

final class TransactionVerbs {
    /** Commits an offset for a group in a transaction; how to name the group has changed. */
    interface SendOffsets {
        void send(
                KafkaProducer<byte[], byte[]> producer,
                Map<TopicPartition, OffsetAndMetadata> offsets,
                String group);
    }

    private TransactionVerbs() {}

    static void addTo(Map<String, Jobs.Verb> verbs, SendOffsets sendOffsets) {
        verbs.put("transact", job -> transact(job, sendOffsets));
        verbs.put("be_fenced", TransactionVerbs::beFenced);
    }

    private static KafkaProducer<byte[], byte[]> producer(JsonNode job) {
        Properties properties = Jobs.common(job);
        properties.put("transactional.id", job.get("transactional_id").asText());
        properties.put("max.block.ms", String.valueOf(Jobs.SECONDS * 1000));
        return new KafkaProducer<>(
                properties, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static void send(KafkaProducer<byte[], byte[]> producer, JsonNode job, byte[] value) {
        String topic = job.get("topic").asText();
        producer.send(new ProducerRecord<>(topic, job.get("partition").asInt(), null, value));
    }

    private static Object transact(JsonNode job, SendOffsets sendOffsets) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer(job)) {
            producer.initTransactions();
            for (JsonNode transaction : job.get("transactions")) {
                producer.beginTransaction();
                for (JsonNode value : transaction.get("values")) {
                    send(producer, job, value.binaryValue());
                }
                if (!transaction.get("group").isNull()) {
                    OffsetAndMetadata offset =
                            new OffsetAndMetadata(transaction.get("offset").asLong());
                    sendOffsets.send(
                            producer,
                            Map.of(RecordVerbs.partition(job), offset),
                            transaction.get("group").asText());
                }
                producer.flush();
                if (transaction.get("commit").asBoolean()) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
        }
        return null;
    }

    private static Object beFenced(JsonNode job) throws Exception {
        try (KafkaProducer<byte[], byte[]> first = producer(job);
                KafkaProducer<byte[], byte[]> second = producer(job)) {
            first.initTransactions();
            first.beginTransaction();
            send(first, job, new byte[] {'z'});
            first.flush();
            second.initTransactions();
            first.commitTransaction();
        }
        return null;
    }
}
