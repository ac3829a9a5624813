// The Java clients of 0.9 and 0.10 as a driver: no headers, no admin client, and message formats
// 0 and 1. The 0.9 client knows no timestamps and no look-up by time; those are found by name.

import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

final class OldDriver {
    private OldDriver() {}

    public static void main(String[] arguments) throws Exception {
        Map<String, Jobs.Verb> verbs = new HashMap<>();
        verbs.put("produce", OldDriver::produce);
        verbs.put("consume", OldDriver::consume);
        verbs.put("consume_in_group", OldDriver::consumeInGroup);
        verbs.put("offset_at", OldDriver::offsetAt);
        verbs.put("list_topics", OldDriver::listTopics);
        Jobs.serve(verbs);
    }

    private static Object produce(JsonNode job) throws Exception {
        Properties properties = Jobs.common(job);
        properties.put("acks", job.get("acks").asText());
        properties.put("compression.type", job.get("codec").asText());
        properties.put("linger.ms", "20");
        properties.put("max.request.size", "16000000");
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

    @SuppressWarnings("unchecked")
    private static ProducerRecord<byte[], byte[]> record(JsonNode job, JsonNode record)
            throws Exception {
        String topic = job.get("topic").asText();
        Integer partition = job.get("partition").asInt();
        byte[] key = Jobs.bytes(record, "key");
        byte[] value = Jobs.bytes(record, "value");
        if (record.get("timestamp").isNull()) {
            return new ProducerRecord<>(topic, partition, key, value);
        }
        return ProducerRecord.class
                .getConstructor(
                        String.class, Integer.class, Long.class, Object.class, Object.class)
                .newInstance(topic, partition, record.get("timestamp").asLong(), key, value);
    }

    private static KafkaConsumer<byte[], byte[]> consumer(JsonNode job) {
        return consumer(job, Map.of("auto.offset.reset", "none"));
    }

    private static KafkaConsumer<byte[], byte[]> consumer(
            JsonNode job, Map<String, String> settings) {
        Properties properties = Jobs.common(job);
        properties.putAll(settings);
        properties.put("enable.auto.commit", "false");
        properties.put("fetch.max.wait.ms", "100");
        properties.put("session.timeout.ms", "10000");
        // Old fetches give no batch that is larger than what was asked for.
        properties.put("max.partition.fetch.bytes", "8000000");
        return new KafkaConsumer<>(
                properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static TopicPartition partition(JsonNode job) {
        return new TopicPartition(job.get("topic").asText(), job.get("partition").asInt());
    }

    // seekToBeginning and seekToEnd took an array in 0.9 and take a collection since 0.10.
    private static void seek(KafkaConsumer<?, ?> consumer, String method, TopicPartition partition)
            throws Exception {
        for (Method found : KafkaConsumer.class.getMethods()) {
            if (found.getName().equals(method)) {
                boolean isArray = found.getParameterTypes()[0].isArray();
                Object argument = isArray ? new TopicPartition[] {partition} : Set.of(partition);
                found.invoke(consumer, argument);
                return;
            }
        }
        throw new NoSuchMethodException(method);
    }

    private static void goTo(KafkaConsumer<?, ?> consumer, TopicPartition partition, long offset)
            throws Exception {
        consumer.assign(List.of(partition));
        if (offset == Jobs.EARLIEST) {
            seek(consumer, "seekToBeginning", partition);
        } else if (offset == Jobs.LATEST) {
            seek(consumer, "seekToEnd", partition);
        } else {
            consumer.seek(partition, offset);
        }
    }

    private static Object consume(JsonNode job) throws Exception {
        List<Map<String, Object>> records = new ArrayList<>();
        int count = job.get("count").asInt();
        long deadline = System.nanoTime() + Jobs.SECONDS * 1_000_000_000L;
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(job)) {
            goTo(consumer, partition(job), job.get("offset").asLong());
            while (records.size() < count && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(200)) {
                    records.add(describe(record));
                }
            }
        }
        return Map.of("records", records.subList(0, Math.min(count, records.size())));
    }

    private static Object consumeInGroup(JsonNode job) throws Exception {
        Map<String, String> settings =
                Map.of("group.id", job.get("group").asText(), "auto.offset.reset", "earliest");
        List<Map<String, Object>> records = new ArrayList<>();
        int count = job.get("count").asInt();
        long deadline = System.nanoTime() + Jobs.SECONDS * 1_000_000_000L;
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(job, settings)) {
            consumer.subscribe(List.of(job.get("topic").asText()));
            while (records.size() < count && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(200)) {
                    records.add(describe(record));
                }
            }
            consumer.commitSync();
        }
        return Map.of("records", records);
    }

    private static Map<String, Object> describe(ConsumerRecord<byte[], byte[]> record)
            throws Exception {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("offset", record.offset());
        fields.put("key", record.key());
        fields.put("value", record.value());
        try {
            fields.put("timestamp", ConsumerRecord.class.getMethod("timestamp").invoke(record));
            Object type = ConsumerRecord.class.getMethod("timestampType").invoke(record);
            fields.put("timestamp_type", type.toString().equals("LogAppendTime") ? "append" : "create");
        } catch (NoSuchMethodException absent) {
            fields.put("timestamp", null);
        }
        return fields;
    }

    private static Object offsetAt(JsonNode job) throws Exception {
        long at = job.get("at").asLong();
        TopicPartition partition = partition(job);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(job)) {
            if (at < 0) {
                goTo(consumer, partition, at);
                return Map.of("offset", consumer.position(partition));
            }
            Method lookUp = KafkaConsumer.class.getMethod("offsetsForTimes", Map.class);
            Object found = ((Map<?, ?>) lookUp.invoke(consumer, Map.of(partition, at))).get(partition);
            if (found == null) {
                return Map.of("offset", -1);
            }
            return Map.of("offset", found.getClass().getMethod("offset").invoke(found));
        }
    }

    private static Object listTopics(JsonNode job) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(job)) {
            Collection<String> names = consumer.listTopics().keySet();
            return Map.of("topics", names);
        }
    }
}
