// Asking and changing with the Java admin client, from version 3 to the present one.

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.clients.admin.AlterConfigsResult;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.ReplicaInfo;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;

final class AdminVerbs {
    private AdminVerbs() {}

    interface Question {
        Object ask(Admin admin, JsonNode job) throws Exception;
    }

    static void addTo(Map<String, Jobs.Verb> verbs) {
        verbs.put("create_topic", with(AdminVerbs::createTopic));
        verbs.put("list_topics", with((admin, job) -> Map.of("topics", admin.listTopics().names().get())));
        verbs.put("describe_topic", with(AdminVerbs::describeTopic));
        verbs.put("create_partitions", with(AdminVerbs::createPartitions));
        verbs.put("delete_topic", with((admin, job) -> admin.deleteTopics(Set.of(topic(job))).all().get()));
        verbs.put("describe_configs", with(AdminVerbs::describeConfigs));
        verbs.put("set_configs", with(AdminVerbs::setConfigs));
        verbs.put("replace_configs", with(AdminVerbs::replaceConfigs));
        verbs.put("delete_records", with(AdminVerbs::deleteRecords));
        verbs.put("describe_cluster", with(AdminVerbs::describeCluster));
        verbs.put("describe_log_dirs", with(AdminVerbs::describeLogDirs));
    }

    private static Jobs.Verb with(Question question) {
        return job -> {
            try (Admin admin = Admin.create(Jobs.common(job))) {
                return question.ask(admin, job);
            }
        };
    }

    private static String topic(JsonNode job) {
        return job.get("topic").asText();
    }

    private static Map<String, String> configs(JsonNode job) {
        Map<String, String> configs = new HashMap<>();
        job.get("configs")
                .fields()
                .forEachRemaining(
                        entry ->
                                configs.put(
                                        entry.getKey(),
                                        entry.getValue().isNull() ? null : entry.getValue().asText()));
        return configs;
    }

    private static Object createTopic(Admin admin, JsonNode job) throws Exception {
        NewTopic topic = new NewTopic(topic(job), job.get("partitions").asInt(), (short) 1);
        topic.configs(configs(job));
        CreateTopicsOptions options =
                new CreateTopicsOptions().validateOnly(job.get("validate_only").asBoolean());
        return admin.createTopics(Set.of(topic), options).all().get();
    }

    private static Object describeTopic(Admin admin, JsonNode job) throws Exception {
        TopicDescription found =
                admin.describeTopics(Set.of(topic(job))).allTopicNames().get().get(topic(job));
        List<Map<String, Object>> partitions = new ArrayList<>();
        for (TopicPartitionInfo partition : found.partitions()) {
            partitions.add(
                    Map.of(
                            "id", partition.partition(),
                            "leader", partition.leader().id(),
                            "replicas", ids(partition.replicas()),
                            "isr", ids(partition.isr())));
        }
        return Map.of("partitions", partitions);
    }

    private static List<Integer> ids(Collection<Node> nodes) {
        return nodes.stream().map(Node::id).toList();
    }

    private static Object createPartitions(Admin admin, JsonNode job) throws Exception {
        NewPartitions total = NewPartitions.increaseTo(job.get("total").asInt());
        return admin.createPartitions(Map.of(topic(job), total)).all().get();
    }

    private static Object describeConfigs(Admin admin, JsonNode job) throws Exception {
        ConfigResource.Type type =
                ConfigResource.Type.valueOf(job.get("resource").asText().toUpperCase());
        ConfigResource resource = new ConfigResource(type, job.get("name").asText());
        Config found = admin.describeConfigs(Set.of(resource)).all().get().get(resource);
        Map<String, Object> configs = new HashMap<>();
        for (ConfigEntry entry : found.entries()) {
            Map<String, Object> described = new HashMap<>();
            described.put("value", entry.value());
            described.put("default", entry.isDefault());
            configs.put(entry.name(), described);
        }
        return Map.of("configs", configs);
    }

    private static Object setConfigs(Admin admin, JsonNode job) throws Exception {
        Collection<AlterConfigOp> changes = new ArrayList<>();
        configs(job)
                .forEach(
                        (name, value) ->
                                changes.add(
                                        new AlterConfigOp(
                                                new ConfigEntry(name, value),
                                                value == null ? OpType.DELETE : OpType.SET)));
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic(job));
        return admin.incrementalAlterConfigs(Map.of(resource, changes)).all().get();
    }

    // The method is gone since version 4, so it is looked up by name.
    private static Object replaceConfigs(Admin admin, JsonNode job) throws Exception {
        List<ConfigEntry> entries = new ArrayList<>();
        configs(job).forEach((name, value) -> entries.add(new ConfigEntry(name, value)));
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic(job));
        Object result =
                Admin.class
                        .getMethod("alterConfigs", Map.class)
                        .invoke(admin, Map.of(resource, new Config(entries)));
        return ((AlterConfigsResult) result).all().get();
    }

    private static Object deleteRecords(Admin admin, JsonNode job) throws Exception {
        TopicPartition partition = new TopicPartition(topic(job), job.get("partition").asInt());
        RecordsToDelete before = RecordsToDelete.beforeOffset(job.get("before").asLong());
        return Map.of(
                "low_watermark",
                admin.deleteRecords(Map.of(partition, before))
                        .lowWatermarks()
                        .get(partition)
                        .get()
                        .lowWatermark());
    }

    private static Object describeCluster(Admin admin, JsonNode job) throws Exception {
        DescribeClusterResult cluster = admin.describeCluster();
        List<Map<String, Object>> brokers = new ArrayList<>();
        for (Node node : cluster.nodes().get()) {
            brokers.add(Map.of("id", node.id(), "host", node.host(), "port", node.port()));
        }
        return Map.of(
                "cluster_id", cluster.clusterId().get(),
                "controller", cluster.controller().get().id(),
                "brokers", brokers);
    }

    private static Object describeLogDirs(Admin admin, JsonNode job) throws Exception {
        List<Integer> brokers = ids(admin.describeCluster().nodes().get());
        Map<String, Long> sizes = new HashMap<>();
        for (Map<String, LogDirDescription> folders :
                admin.describeLogDirs(brokers).allDescriptions().get().values()) {
            for (LogDirDescription folder : folders.values()) {
                for (Map.Entry<TopicPartition, ReplicaInfo> replica :
                        folder.replicaInfos().entrySet()) {
                    if (replica.getKey().topic().equals(topic(job))) {
                        String partition = String.valueOf(replica.getKey().partition());
                        sizes.put(partition, replica.getValue().size());
                    }
                }
            }
        }
        return Map.of("sizes", sizes);
    }

    static Object offsetOfMaxTimestamp(JsonNode job, TopicPartition partition) throws Exception {
        try (Admin admin = Admin.create(Jobs.common(job))) {
            ListOffsetsResult.ListOffsetsResultInfo found =
                    admin.listOffsets(Map.of(partition, OffsetSpec.maxTimestamp()))
                            .partitionResult(partition)
                            .get();
            return Map.of("offset", found.offset(), "timestamp", found.timestamp());
        }
    }
}
