// The loop of the Java programs: one JSON job a line in, one JSON answer a line out.
// tests/clients/driver.py has the vocabulary. Nothing here depends on a version of Kafka newer
// than 0.9, so that the oldest clients can be driven too.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.protocol.Errors;

final class Jobs {
    static final ObjectMapper JSON = new ObjectMapper();
    static final int SECONDS = 20;
    static final long EARLIEST = -2;
    static final long LATEST = -1;
    static final long MAX_TIMESTAMP = -3;

    interface Verb {
        Object run(JsonNode job) throws Exception;
    }

    private Jobs() {}

    static Properties common(JsonNode job) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", job.get("bootstrap").asText());
        properties.put("client.id", job.get("client_id").asText());
        properties.put("request.timeout.ms", String.valueOf(SECONDS * 1000));
        job.get("settings")
                .fields()
                .forEachRemaining(setting -> properties.put(setting.getKey(), setting.getValue().asText()));
        return properties;
    }

    static byte[] bytes(JsonNode record, String field) throws Exception {
        JsonNode value = record.get(field);
        return value == null || value.isNull() ? null : value.binaryValue();
    }

    static void serve(Map<String, Verb> verbs) throws Exception {
        BufferedReader input =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            System.out.println(JSON.writeValueAsString(answer(verbs, JSON.readTree(line))));
        }
        System.exit(0);
    }

    private static ObjectNode answer(Map<String, Verb> verbs, JsonNode job) {
        ObjectNode answer = JSON.createObjectNode();
        try {
            answer.set("ok", JSON.valueToTree(verbs.get(job.get("verb").asText()).run(job)));
        } catch (Throwable failure) {
            failure.printStackTrace();
            Throwable cause = failure instanceof ExecutionException ? failure.getCause() : failure;
            ObjectNode error = answer.putObject("error");
            error.put("code", code(cause)).put("text", cause.toString());
        }
        return answer;
    }

    private static Integer code(Throwable cause) {
        if (cause instanceof OffsetOutOfRangeException) {
            return (int) Errors.OFFSET_OUT_OF_RANGE.code();
        }
        return cause instanceof ApiException ? (int) Errors.forException(cause).code() : null;
    }
}
