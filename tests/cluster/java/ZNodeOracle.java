// Kafka's own decoders as an oracle for what a cluster keeps in ZooKeeper.
//
//   arguments: connect string with the cluster's path, names of topics ...
//   answer:    one line for each thing that Kafka's classes read there

import java.util.Arrays;
import kafka.controller.LeaderIsrAndControllerEpoch;
import kafka.zk.AdminZkClient;
import kafka.zk.KafkaZkClient;
import kafka.zk.KafkaZkClient$;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import org.apache.zookeeper.client.ZKClientConfig;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;
import scala.collection.Seq;

public class ZNodeOracle {
    public static void main(String[] args) {
        int slash = args[0].indexOf('/');
        String server = args[0].substring(0, slash);
        String path = args[0].substring(slash);
        var topics = Arrays.asList(args).subList(1, args.length);
        KafkaZkClient client = KafkaZkClient$.MODULE$.apply(
            server + path, false, 10000, 10000, 10, Time.SYSTEM, "oracle", new ZKClientConfig(),
            "kafka.server", "SessionExpireListener", false, false);
        try {
            System.out.println("cluster " + client.getClusterId().get());
            System.out.println("controller " + client.getControllerId().get()
                + " epoch " + client.getControllerEpoch().get()._1());
            tellBrokers(client);
            for (String topic : topics) {
                tellTopic(client, topic);
            }
        } finally {
            client.close();
        }
    }

    private static void tellBrokers(KafkaZkClient client) {
        var brokers = client.getAllBrokerAndEpochsInCluster();
        CollectionConverters.asJava(brokers).forEach((broker, epoch) -> System.out.println(
            "broker " + broker.id() + " epoch " + epoch
                + " rack " + broker.rack().getOrElse(() -> "none")
                + " " + CollectionConverters.asJava(broker.endPoints()).stream()
                    .map(e -> e.securityProtocol() + "://" + e.host() + ":" + e.port()).toList()));
    }

    private static void tellTopic(KafkaZkClient client, String topic) {
        scala.collection.immutable.Set<String> names =
            CollectionConverters.asScala(java.util.Set.of(topic)).toSet();
        var found = CollectionConverters.asJava(
            client.getReplicaAssignmentAndTopicIdForTopics(names)).iterator().next();
        System.out.println("topic " + found.topic() + " id " + found.topicId().get());
        var settings = new AdminZkClient(client, Option.empty()).fetchEntityConfig("topics", topic);
        System.out.println("config " + settings);
        CollectionConverters.asJava(found.assignment()).forEach((partition, assignment) -> {
            LeaderIsrAndControllerEpoch state = state(client, partition);
            System.out.println("partition " + partition
                + " replicas " + CollectionConverters.asJava(assignment.replicas())
                + " adding " + CollectionConverters.asJava(assignment.addingReplicas())
                + " leader " + state.leaderAndIsr().leader()
                + " epoch " + state.leaderAndIsr().leaderEpoch()
                + " isr " + state.leaderAndIsr().isr()
                + " version " + state.leaderAndIsr().partitionEpoch());
        });
    }

    private static LeaderIsrAndControllerEpoch state(KafkaZkClient client, TopicPartition where) {
        Seq<TopicPartition> one = CollectionConverters.asScala(java.util.List.of(where)).toSeq();
        return client.getTopicPartitionStates(one).apply(where);
    }
}
