import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * One member of a consumer group, with the lines of group_member.py.
 *
 * <p>Arguments: BOOTSTRAP GROUP TOPIC [INSTANCE_ID]; a topic that begins with ^ is a pattern. The
 * property group.protocol is classic or consumer.
 */
public class GroupMember {
    public static void main(String[] args) throws InterruptedException {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("group.id", args[1]);
        settings.put("group.protocol", System.getProperty("group.protocol", "consumer"));
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        if (args.length > 3) {
            settings.put("group.instance.id", args[3]);
        }
        KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            consumer.wakeup();
            try {
                main.join(20_000);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }));
        System.out.println("ready");
        try (consumer) {
            if (args[2].startsWith("^")) {
                consumer.subscribe(new SubscriptionPattern(args[2]), new Listener());
            } else {
                consumer.subscribe(List.of(args[2]), new Listener());
            }
            while (true) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    System.out.println("got " + record.partition() + " " + record.offset());
                }
                consumer.commitAsync();
            }
        } catch (WakeupException asked) {
            System.out.println("closed");
        }
    }

    private static class Listener implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            System.out.println("assigned " + numbers(partitions));
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            System.out.println("revoked " + numbers(partitions));
        }

        private static String numbers(Collection<TopicPartition> partitions) {
            return partitions.stream()
                    .map(partition -> String.valueOf(partition.partition()))
                    .collect(Collectors.joining(","));
        }
    }
}
