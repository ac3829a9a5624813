import org.apache.kafka.clients.consumer.SubscriptionPattern;

/** A member that names its topics by a pattern which the broker reads; a class of Kafka 4 alone. */
public class PatternMember {
    public static void main(String[] args) {
        SubscriptionPattern wanted = new SubscriptionPattern(args[GroupMember.TOPIC]);
        GroupMember.run(args, (consumer, listener) -> consumer.subscribe(wanted, listener));
    }
}
