import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Utils;

/**
 * Answers lines from stdin with what the Java client makes of them.
 *
 *   hash    HEX                                -> the unsigned murmur2 hash of the key
 *   ASSIGNOR  topic:count,...  member;instance;topic,...;generation;topic:partition,...  ...
 *                                              -> member=topic:partition,...  for each member
 *
 * Fields are divided by tabs. An empty instance, or generation -1, means that there is none.
 */
public class ClientTables {
    public static void main(String[] args) throws Exception {
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder out = new StringBuilder();
        for (String line; (line = lines.readLine()) != null;) {
            String[] fields = line.split("\t", -1);
            if (fields[0].equals("hash"))
                out.append(Utils.murmur2(bytes(fields[1])) & 0xFFFFFFFFL);
            else
                out.append(assign(fields));
            out.append('\n');
        }
        System.out.print(out);
    }

    private static byte[] bytes(String hex) {
        byte[] result = new byte[hex.length() / 2];
        for (int i = 0; i < result.length; i++)
            result[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        return result;
    }

    private static String assign(String[] fields) {
        Map<String, Integer> counts = new HashMap<>();
        for (TopicPartition topic : partitions(fields[1]))
            counts.put(topic.topic(), topic.partition());
        Map<String, Subscription> subscriptions = new HashMap<>();
        for (String member : Arrays.copyOfRange(fields, 2, fields.length)) {
            String[] parts = member.split(";", -1);
            subscriptions.put(parts[0], subscription(fields[0], parts));
        }
        Map<String, List<TopicPartition>> result =
            new TreeMap<>(assignor(fields[0]).assign(counts, subscriptions));
        return result.entrySet().stream()
            .map(entry -> entry.getKey() + "=" + text(entry.getValue()))
            .collect(Collectors.joining("\t"));
    }

    private static AbstractPartitionAssignor assignor(String name) {
        switch (name) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            default: return new CooperativeStickyAssignor();
        }
    }

    private static Subscription subscription(String assignor, String[] parts) {
        List<String> topics = Arrays.asList(parts[2].split(","));
        int generation = Integer.parseInt(parts[3]);
        List<TopicPartition> owned = partitions(parts[4]);
        ByteBuffer userData = null;
        if (assignor.equals("sticky") && generation >= 0) {
            StickyAssignor before = new StickyAssignor();
            before.onAssignment(
                new Assignment(owned),
                new ConsumerGroupMetadata("group", generation, parts[0], Optional.empty()));
            userData = before.subscriptionUserData(new HashSet<>(topics));
        }
        Subscription result =
            new Subscription(topics, userData, owned, generation, Optional.empty());
        result.setGroupInstanceId(parts[1].isEmpty() ? Optional.empty() : Optional.of(parts[1]));
        return result;
    }

    private static List<TopicPartition> partitions(String text) {
        List<TopicPartition> result = new ArrayList<>();
        for (String word : text.isEmpty() ? new String[0] : text.split(",")) {
            String[] pair = word.split(":");
            result.add(new TopicPartition(pair[0], Integer.parseInt(pair[1])));
        }
        return result;
    }

    private static String text(List<TopicPartition> partitions) {
        return partitions.stream()
            .sorted((a, b) -> a.topic().equals(b.topic())
                ? Integer.compare(a.partition(), b.partition()) : a.topic().compareTo(b.topic()))
            .map(partition -> partition.topic() + ":" + partition.partition())
            .collect(Collectors.joining(","));
    }
}
