/** Prints the name of every broker setting, one a line. */
public class BrokerSettingNames {
    public static void main(String[] args) {
        kafka.server.KafkaConfig.configDef().names().forEach(System.out::println);
    }
}
