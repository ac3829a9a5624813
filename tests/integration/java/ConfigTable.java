import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import kafka.server.DynamicBrokerConfig$;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * Prints Kafka's tables of settings, one row a line, the fields separated by tabs:
 * broker or topic, name, type, default, validator, importance, dynamic mode;
 * synonyms, topic name, broker names.
 */
public class ConfigTable {
    public static void main(String[] args) {
        print("broker", KafkaConfig.configDef());
        print("topic", LogConfig.configDefCopy());
        ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.forEach((name, synonyms) ->
            row("synonyms", name, synonyms.stream().map(s -> s.name()).collect(Collectors.joining(","))));
    }

    private static void print(String table, ConfigDef definition) {
        Map<String, String> modes = DynamicBrokerConfig$.MODULE$.dynamicConfigUpdateModes();
        for (ConfigDef.ConfigKey key : definition.configKeys().values()) {
            row(table, key.name, key.type, text(key.defaultValue), key.validator, key.importance,
                modes.getOrDefault(key.name, "read-only"));
        }
    }

    private static Object text(Object value) {
        if (value instanceof List) {
            return ((List<?>) value).stream().map(Object::toString).collect(Collectors.joining(","));
        }
        return value;
    }

    private static void row(Object... fields) {
        System.out.println(java.util.Arrays.stream(fields).map(String::valueOf)
            .collect(Collectors.joining("\t")));
    }
}
