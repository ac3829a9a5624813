// Producing and reading with the Java client, from version 2 to the present one.

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

final class RecordVerbs {
    private RecordVerbs() {}

    static void addTo(Map<String, Jobs.Verb> verbs) {
        verbs.put("produce", RecordVerbs::produce);
        verbs.put("consume", RecordVerbs::consume);
        verbs.put("consume_in_group", RecordVerbs::consumeInGroup);
        verbs.put("offset_at", RecordVerbs::offsetAt);
    }

    private static Object produce(JsonNode job) throws Exception {
        Properties properties = Jobs.common(job);
        properties.put("acks", job.get("acks").asText());
        properties.put("compression.type", job.get("codec").asText());
        properties.put("enable.idempotence", job.get("idempotent").asText());
        properties.put("linger.ms", "20");
        properties.put("max.request.size", "16000000");
        properties.put("max.block.ms", String.valueOf(Jobs.SECONDS * 1000));
        List<Long> offsets = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(
                        properties, new ByteArraySerializer(), new ByteArraySerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (JsonNode record : job.get("records")) {
                sent.add(producer.send(record(job, record)));
            }
            producer.flush();
            for (Future<RecordMetadata> future : sent) {
                offsets.add(future.get().offset());
            }
        }
        return Map.of("offsets", offsets);
    }

    private static ProducerRecord<byte[], byte[]> record(JsonNode job, JsonNode record)
            throws Exception {
        List<Header> headers = new ArrayList<>();
        for (JsonNode header : record.get("headers")) {
            String name = header.get("name").asText();
            headers.add(new RecordHeader(name, Jobs.bytes(header, "value")));
        }
        JsonNode timestamp = record.get("timestamp");
        return new ProducerRecord<>(
                job.get("topic").asText(),
                job.get("partition").asInt(),
                timestamp.isNull() ? null : timestamp.asLong(),
                Jobs.bytes(record, "key"),
                Jobs.bytes(record, "value"),
                headers);
    }

    private static KafkaConsumer<byte[], byte[]> consumer(JsonNode job) {
        Properties properties = Jobs.common(job);
        properties.put("auto.offset.reset", "none");
        properties.put("enable.auto.commit", "false");
        properties.put("fetch.max.wait.ms", "100");
        properties.put("default.api.timeout.ms", String.valueOf(Jobs.SECONDS * 1000));
        properties.put("allow.auto.create.topics", "false");
        if (job.path("committed").asBoolean()) {
            properties.put("isolation.level", "read_committed");
        }
        return new KafkaConsumer<>(
                properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static TopicPartition partition(JsonNode job) {
        return new TopicPartition(job.get("topic").asText(), job.get("partition").asInt());
    }

    private static Object consume(JsonNode job) {
        List<Map<String, Object>> records = new ArrayList<>();
        int count = job.get("count").asInt();
        long offset = job.get("offset").asLong();
        long deadline = System.nanoTime() + Jobs.SECONDS * 1_000_000_000L;
        TopicPartition partition = partition(job);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(job)) {
            consumer.assign(Set.of(partition));
            if (offset == Jobs.EARLIEST) {
                consumer.seekToBeginning(Set.of(partition));
            } else if (offset == Jobs.LATEST) {
                consumer.seekToEnd(Set.of(partition));
            } else {
                consumer.seek(partition, offset);
            }
            while (records.size() < count && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record :
                        consumer.poll(Duration.ofMillis(200))) {
                    records.add(describe(record));
                }
            }
        }
        return Map.of("records", records.subList(0, Math.min(count, records.size())));
    }

    private static Object consumeInGroup(JsonNode job) {
        Properties properties = Jobs.common(job);
        properties.put("group.id", job.get("group").asText());
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        properties.put("fetch.max.wait.ms", "100");
        List<Map<String, Object>> records = new ArrayList<>();
        int count = job.get("count").asInt();
        long deadline = System.nanoTime() + Jobs.SECONDS * 1_000_000_000L;
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(
                        properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(job.get("topic").asText()));
            while (records.size() < count && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record :
                        consumer.poll(Duration.ofMillis(200))) {
                    records.add(describe(record));
                }
            }
            consumer.commitSync();
        }
        return Map.of("records", records);
    }

    private static Map<String, Object> describe(ConsumerRecord<byte[], byte[]> record) {
        List<Map<String, Object>> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            Map<String, Object> pair = new HashMap<>();
            pair.put("name", header.key());
            pair.put("value", header.value());
            headers.add(pair);
        }
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("offset", record.offset());
        fields.put("timestamp", record.timestamp());
        fields.put(
                "timestamp_type",
                record.timestampType() == TimestampType.LOG_APPEND_TIME ? "append" : "create");
        fields.put("key", record.key());
        fields.put("value", record.value());
        fields.put("headers", headers);
        return fields;
    }

    static Object offsetAt(JsonNode job) {
        long at = job.get("at").asLong();
        TopicPartition partition = partition(job);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(job)) {
            if (at == Jobs.EARLIEST) {
                return Map.of("offset", consumer.beginningOffsets(Set.of(partition)).get(partition));
            }
            if (at == Jobs.LATEST) {
                return Map.of("offset", consumer.endOffsets(Set.of(partition)).get(partition));
            }
            OffsetAndTimestamp found =
                    consumer.offsetsForTimes(Map.of(partition, at)).get(partition);
            return Map.of("offset", found == null ? -1 : found.offset());
        }
    }
}
