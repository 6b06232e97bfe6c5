// Card sessions in Flink.
//
//   CardSessions INPUT OUTPUT BACKEND TIMERS
//
// One task reads and parses, because two would let a user's payments overtake each other; two tasks keep the state and write.

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CopyOnWriteArrayList;

import org.apache.flink.api.common.JobExecutionResult;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.serialization.SimpleStringEncoder;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.file.sink.FileSink;
import org.apache.flink.connector.file.src.FileSource;
import org.apache.flink.connector.file.src.FileSourceSplit;
import org.apache.flink.connector.file.src.assigners.FileSplitAssigner;
import org.apache.flink.connector.file.src.reader.TextLineInputFormat;
import org.apache.flink.core.fs.Path;
import org.apache.flink.runtime.util.EnvironmentInformation;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonFactory;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonParser;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonToken;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.filesystem.rollingpolicies.OnCheckpointRollingPolicy;
import org.apache.flink.util.Collector;

public class CardSessions {
    static final long GAP_MS = 30 * 60 * 1000;
    static final long HIGH_MINOR = 50_000;
    static final long ALERT_AT = 6;

    /** After so many payments the time is noted: as many as are in a file, and so in a batch of Spark. */
    static final int NOTED_EVENTS = 250_000;

    /** When the parser had read NOTED_EVENTS more, in nanoseconds. The job runs in this process, so it can be asked afterwards. */
    static final List<Long> NOTED = new CopyOnWriteArrayList<>();

    public static class Payment {
        public String userId;
        public long ts;
        public long amountMinor;
    }

    public static class Session {
        public long start;
        public long last;
        public long count;
        public long hvCount;
        public long totalMinor;
        public boolean flagged;
    }

    /** Hands out the files in the order of their names. */
    public static class InOrder implements FileSplitAssigner {
        private final ArrayDeque<FileSourceSplit> splits = new ArrayDeque<>();

        public InOrder(Collection<FileSourceSplit> initial) {
            addSplits(initial);
        }

        @Override
        public Optional<FileSourceSplit> getNext(String host) {
            return Optional.ofNullable(splits.poll());
        }

        @Override
        public void addSplits(Collection<FileSourceSplit> more) {
            List<FileSourceSplit> all = new ArrayList<>(splits);
            all.addAll(more);
            all.sort(Comparator.comparing(split -> split.path().getName()));
            splits.clear();
            splits.addAll(all);
        }

        @Override
        public Collection<FileSourceSplit> remainingSplits() {
            return splits;
        }
    }

    public static class Parse extends RichMapFunction<String, Payment> {
        private transient JsonFactory json;
        private transient int sinceNoted;

        @Override
        public void open(OpenContext context) {
            json = new JsonFactory();
        }

        @Override
        public Payment map(String line) throws IOException {
            Payment payment = new Payment();
            try (JsonParser parser = json.createParser(line)) {
                parser.nextToken();
                while (parser.nextToken() == JsonToken.FIELD_NAME) {
                    String name = parser.currentName();
                    parser.nextToken();
                    switch (name) {
                        case "user_id" -> payment.userId = parser.getText();
                        case "ts" -> payment.ts = parser.getLongValue();
                        case "amount_minor" -> payment.amountMinor = parser.getLongValue();
                        default -> parser.skipChildren();
                    }
                }
            }
            if (++sinceNoted == NOTED_EVENTS) {
                sinceNoted = 0;
                NOTED.add(System.nanoTime());
            }
            return payment;
        }
    }

    /** An open session has one timer, moved on when it fires too early: cheaper than to move it with each payment. */
    public static class Sessions extends KeyedProcessFunction<String, Payment, String> {
        private transient ValueState<Session> state;

        @Override
        public void open(OpenContext context) {
            state = getRuntimeContext().getState(new ValueStateDescriptor<>("session", Types.POJO(Session.class)));
        }

        @Override
        public void processElement(Payment payment, Context context, Collector<String> out) throws Exception {
            Session session = state.value();
            if (session == null) {
                session = new Session();
                begin(session, payment.ts);
                context.timerService().registerEventTimeTimer(payment.ts + GAP_MS);
            } else if (payment.ts - session.last > GAP_MS) {
                out.collect(row(payment.userId, session));
                begin(session, payment.ts);
            }
            session.last = payment.ts;
            session.count++;
            session.totalMinor += payment.amountMinor;
            if (payment.amountMinor >= HIGH_MINOR && ++session.hvCount == ALERT_AT) {
                session.flagged = true;
                out.collect("{\"kind\":\"alert\",\"user_id\":\"" + payment.userId + "\",\"session_start\":" + session.start
                        + ",\"ts\":" + payment.ts + ",\"hv_count\":" + session.hvCount + "}");
            }
            state.update(session);
        }

        @Override
        public void onTimer(long time, OnTimerContext context, Collector<String> out) throws Exception {
            Session session = state.value();
            if (session.last + GAP_MS > time) {
                context.timerService().registerEventTimeTimer(session.last + GAP_MS);
            } else {
                out.collect(row(context.getCurrentKey(), session));
                state.clear();
            }
        }

        private static void begin(Session session, long ts) {
            session.start = ts;
            session.count = 0;
            session.hvCount = 0;
            session.totalMinor = 0;
            session.flagged = false;
        }

        private static String row(String user, Session session) {
            return "{\"kind\":\"session\",\"user_id\":\"" + user + "\",\"start\":" + session.start + ",\"end\":"
                    + session.last + ",\"count\":" + session.count + ",\"hv_count\":" + session.hvCount
                    + ",\"total_minor\":" + session.totalMinor + ",\"flagged\":" + session.flagged + "}";
        }
    }

    public static void main(String[] args) throws Exception {
        File output = new File(args[1]).getAbsoluteFile();
        Files.createDirectories(output.toPath().resolve("checkpoints"));
        Files.createDirectories(output.toPath().resolve("local"));
        StreamExecutionEnvironment environment =
                StreamExecutionEnvironment.createLocalEnvironment(2, configuration(output, args[2], args[3]));
        environment.getConfig().enableObjectReuse();
        build(environment, new File(args[0]), output);

        long started = System.nanoTime();
        JobExecutionResult result = environment.execute("card-sessions");
        System.out.println("measured: {\"version\": \"" + EnvironmentInformation.getVersion() + "\", \"seconds_processing\": "
                + result.getNetRuntime() / 1e3 + ", \"batches\": " + batches(started) + "}");
    }

    private static Configuration configuration(File output, String backend, String timers) {
        Configuration settings = new Configuration();
        settings.setString("state.backend.type", backend);
        settings.setString("state.backend.rocksdb.timer-service.factory", timers);
        settings.setString("state.backend.rocksdb.localdir", output + "/local");
        settings.setString("execution.checkpointing.interval", "1 s");
        settings.setString("execution.checkpointing.mode", "EXACTLY_ONCE");
        settings.setString("execution.checkpointing.incremental", "true");
        settings.setString("execution.checkpointing.storage", "filesystem");
        settings.setString("execution.checkpointing.dir", output.toURI() + "checkpoints");
        settings.setString("taskmanager.memory.managed.size", "512 mb");
        settings.setString("io.tmp.dirs", output + "/local");
        return settings;
    }

    private static void build(StreamExecutionEnvironment environment, File input, File output) {
        Path[] files = Arrays.stream(input.listFiles((folder, name) -> name.startsWith("events-")))
                .map(file -> new Path(file.toURI())).toArray(Path[]::new);
        FileSource<String> source = FileSource.forRecordStreamFormat(new TextLineInputFormat(), files)
                .setSplitAssigner(InOrder::new).build();
        FileSink<String> sink = FileSink
                .forRowFormat(new Path(output.toURI() + "rows"), new SimpleStringEncoder<String>())
                .withRollingPolicy(OnCheckpointRollingPolicy.build()).build();
        WatermarkStrategy<Payment> times =
                WatermarkStrategy.<Payment>forMonotonousTimestamps().withTimestampAssigner((payment, unused) -> payment.ts);

        environment.fromSource(source, WatermarkStrategy.noWatermarks(), "files").setParallelism(1)
                .map(new Parse()).returns(Types.POJO(Payment.class)).setParallelism(1)
                .assignTimestampsAndWatermarks(times).setParallelism(1)
                .keyBy(payment -> payment.userId)
                .process(new Sessions())
                .sinkTo(sink);
    }

    private static String batches(long started) {
        StringBuilder batches = new StringBuilder("[");
        long before = started;
        for (long noted : NOTED) {
            batches.append(batches.length() > 1 ? ", " : "").append("{\"events\": ").append(NOTED_EVENTS)
                    .append(", \"seconds\": ").append((noted - before) / 1e9).append("}");
            before = noted;
        }
        return batches.append("]").toString();
    }
}
