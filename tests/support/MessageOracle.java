// Kafka's own serializers as an oracle: reads questions from standard input, one a line, and
// answers each with one line.
//
//   question: class name TAB version TAB message in hex TAB the same message in Kafka's JSON
//   answer:   ok TAB hex as written after reading the hex TAB hex after reading the JSON
//             TAB the JSON of what the hex said (of records, only their size)
//         or: unknown TAB why, when this Kafka has no such class or version
//         or: failed TAB why
//
// With the argument "headers" it answers instead with a line for each API and version: key,
// version, version of the request header, version of the response header.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

public class MessageOracle {
    private static final String[] PACKAGES = {
        "org.apache.kafka.common.message.",
        "org.apache.kafka.coordinator.group.generated.",
        "org.apache.kafka.coordinator.transaction.generated.",
    };
    private static final HexFormat HEX = HexFormat.of();
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        if (args.length > 0 && args[0].equals("headers")) {
            tellHeaders();
            return;
        }
        var questions =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line; (line = questions.readLine()) != null; ) {
            answers.println(answer(line.split("\t", 4)));
        }
        answers.flush();
    }

    private static void tellHeaders() {
        for (ApiMessageType api : ApiMessageType.values()) {
            for (short v = api.lowestSupportedVersion(); v <= api.highestSupportedVersion(true); v++) {
                System.out.println(api.apiKey() + " " + v + " " + api.requestHeaderVersion(v)
                    + " " + api.responseHeaderVersion(v));
            }
        }
    }

    private static String answer(String[] question) {
        Class<?> type = find(question[0]);
        if (type == null) {
            return "unknown\tno class " + question[0];
        }
        short version = Short.parseShort(question[1]);
        try {
            Message read = (Message) type.getConstructor().newInstance();
            if (version < read.lowestSupportedVersion() || version > read.highestSupportedVersion()) {
                return "unknown\tno version " + version;
            }
            ByteBuffer bytes = ByteBuffer.wrap(HEX.parseHex(question[2]));
            read.read(new ByteBufferAccessor(bytes), version);
            if (bytes.hasRemaining()) {
                return "failed\t" + bytes.remaining() + " bytes left over";
            }
            Class<?> converter = Class.forName(type.getName() + "JsonConverter");
            Object told = converter.getMethod("read", JsonNode.class, short.class)
                .invoke(null, JSON.readTree(question[3]), version);
            Object json = converter.getMethod("write", type, short.class, boolean.class)
                .invoke(null, read, version, false);
            return String.join(
                "\t", "ok", hex(read, version), hex((Message) told, version), json.toString());
        } catch (ReflectiveOperationException | java.io.IOException | RuntimeException failure) {
            Throwable cause = failure.getCause() == null ? failure : failure.getCause();
            return "failed\t" + cause.toString().replaceAll("\\s+", " ");
        }
    }

    private static String hex(Message message, short version) {
        var cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        return HEX.formatHex(buffer.array(), 0, buffer.position());
    }

    private static Class<?> find(String name) {
        for (String prefix : PACKAGES) {
            try {
                return Class.forName(prefix + name);
            } catch (ClassNotFoundException absent) {
                continue;
            }
        }
        return null;
    }
}
