import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.function.BiConsumer;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * One member of a consumer group, with the lines of tests/integration/group_member.py.
 *
 * <p>Arguments: PROTOCOL BOOTSTRAP GROUP TOPIC ASSIGNOR [INSTANCE_ID]; the protocol is classic or
 * consumer.
 */
public class GroupMember {
    static final int TOPIC = 3;

    private static final Duration WAIT = Duration.ofMillis(200);
    private static final String PACKAGE = "org.apache.kafka.clients.consumer.";
    private static final Map<String, String> ASSIGNORS = Map.of(
            "range", PACKAGE + "RangeAssignor",
            "roundrobin", PACKAGE + "RoundRobinAssignor",
            "sticky", PACKAGE + "StickyAssignor",
            "cooperative-sticky", PACKAGE + "CooperativeStickyAssignor");

    public static void main(String[] args) {
        run(args, (consumer, listener) -> consumer.subscribe(List.of(args[TOPIC]), listener));
    }

    static void run(
            String[] args,
            BiConsumer<KafkaConsumer<byte[], byte[]>, ConsumerRebalanceListener> subscribe) {
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(
                settings(args), new ByteArrayDeserializer(), new ByteArrayDeserializer());
        wakeWhenAskedToGo(consumer);
        System.out.println("ready");
        try (consumer) {
            subscribe.accept(consumer, new Listener());
            while (true) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(WAIT)) {
                    System.out.println("got " + record.partition() + " " + record.offset());
                }
                consumer.commitAsync();
            }
        } catch (WakeupException asked) {
            System.out.println("closed");
        }
    }

    private static Properties settings(String[] args) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[1]);
        settings.put("group.id", args[2]);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        boolean isStatic = args.length > 5;
        if (isStatic) {
            settings.put("group.instance.id", args[5]);
        }
        if (args[0].equals("consumer")) {
            settings.put("group.protocol", "consumer");
            settings.put("group.remote.assignor", args[4]);
        } else {
            settings.put("partition.assignment.strategy", ASSIGNORS.get(args[4]));
            settings.put("session.timeout.ms", isStatic ? "30000" : "6000");
            settings.put("heartbeat.interval.ms", "500");
        }
        return settings;
    }

    private static void wakeWhenAskedToGo(KafkaConsumer<byte[], byte[]> consumer) {
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            consumer.wakeup();
            try {
                main.join(20_000);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }));
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
