package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	spanpb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/belfry-mq/belfry/config"
	goclient "github.com/belfry-mq/belfry/pkg/client"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// logLines collects the lines of a log in JSON.
type logLines struct {
	mu    sync.Mutex
	lines []map[string]any
}

func (l *logLines) Write(line []byte) (int, error) {
	var fields map[string]any
	if err := json.Unmarshal(line, &fields); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fields)
	return len(line), nil
}

func (l *logLines) Sync() error { return nil }

// with returns the lines with a message.
func (l *logLines) with(message string) (found []map[string]any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if line["msg"] == message {
			found = append(found, line)
		}
	}
	return found
}

// callerTrace and callerSpan are the context of a caller that samples its trace.
const (
	callerTrace, callerSpan = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	callerContext           = "00-" + callerTrace + "-" + callerSpan + "-01"
)

// startTraced starts a server with environment variables. The variables are those of the process, so no test that calls it is
// parallel.
func startTraced(t *testing.T, level zapcore.Level, env map[string]string) (*server, *logLines) {
	t.Helper()
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
	for name, value := range env {
		t.Setenv(name, value)
	}
	logs := &logLines{}
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), logs, level)
	s := launchWith(t, pgtest.Database(t), zap.New(core), func(cfg *config.Config) { cfg.HTTP.AccessLog = true })
	s.ready(t)
	return s, logs
}

// traced sends a request with a traceparent. An empty one is not sent.
func (s *server) traced(t *testing.T, c call, traceparent string) reply {
	t.Helper()
	c.Traceparent = traceparent
	found, err := s.send(t.Context(), c)
	require.NoError(t, err)
	require.Less(t, found.Status, 300, string(found.Raw))
	return found
}

// popHeaders pops from a queue and returns the answer and the headers of its first message.
func (s *server) popHeaders(t *testing.T, path string) (api.Delivery[json.RawMessage], map[string]string) {
	t.Helper()
	found := s.traced(t, get(path+"&wait=true&timeout=20000"), "")
	require.Equal(t, http.StatusOK, found.Status)
	var delivery api.Delivery[json.RawMessage]
	require.NoError(t, json.Unmarshal(found.Raw, &delivery))
	return delivery, delivery.Messages[0].Headers
}

// provider returns a provider of spans of the service shop, which go to a collector at once.
func provider(t *testing.T, c *collector) trace.TracerProvider {
	t.Helper()
	exporter, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(c.url+"/v1/traces"))
	require.NoError(t, err)
	made := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter), sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample())),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "shop"))))
	t.Cleanup(func() { require.NoError(t, made.Shutdown(context.WithoutCancel(t.Context()))) })
	return made
}

// One trace has the push, the delivery, the handler and the acknowledgment of a program that uses the Go client.
func TestATraceOverTheGoClient(t *testing.T) {
	c := newCollector(t)
	s, _ := startTraced(t, zap.WarnLevel, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.url})
	shop := provider(t, c)
	client, err := goclient.New(goclient.Config{URLs: []string{s.base}, TracerProvider: shop})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	ctx, checkout := shop.Tracer("shop").Start(t.Context(), "checkout")
	_, err = client.Push(ctx, goclient.Item{Queue: "orders", Payload: 1, Headers: map[string]string{"tenant": "acme"}})
	require.NoError(t, err)
	checkout.End()
	consuming, stop := context.WithCancel(t.Context())
	defer stop()
	require.NoError(t, goclient.Consume(consuming, client, goclient.ConsumeOptions{Queue: "orders", Group: "billing"},
		func(ctx context.Context, m *goclient.Message[int]) error {
			defer stop()
			_, inner := shop.Tracer("shop").Start(ctx, "charge")
			inner.End()
			require.Equal(t, "acme", m.Headers["tenant"])
			return nil
		}))
	require.NoError(t, s.stop(t)) // exports the last spans

	checked := c.of(t, "shop", "checkout")
	ours := c.of(t, "shop", "publish orders")
	server := c.of(t, "belfry", "publish orders")
	receive := c.of(t, "belfry", "receive orders")
	process := c.of(t, "shop", "process orders")
	charge := c.of(t, "shop", "charge")
	settle := c.of(t, "shop", "settle")
	settled := c.of(t, "belfry", "settle")
	for _, edge := range []struct{ parent, child span }{
		{checked, ours}, {ours, server}, {ours, receive}, {ours, process}, {process, charge}, {process, settle}, {settle, settled},
	} {
		require.Equal(t, checked.trace, edge.child.trace, edge.child.name)
		require.Equal(t, edge.parent.id, edge.child.parent, "%s under %s", edge.child.name, edge.parent.name)
	}
	require.Equal(t, []string{checked.trace + "-" + ours.id}, server.links)
	require.Equal(t, spanpb.Span_SPAN_KIND_PRODUCER, ours.kind)
	require.Equal(t, spanpb.Span_SPAN_KIND_CLIENT, server.kind, "another span created the message")
	require.Equal(t, spanpb.Span_SPAN_KIND_CLIENT, receive.kind)
	require.Equal(t, spanpb.Span_SPAN_KIND_CONSUMER, process.kind)
	require.Subset(t, receive.attributes, map[string]string{
		"messaging.system": "belfry", "messaging.operation.type": "receive", "messaging.destination.name": "orders",
		"messaging.consumer.group.name": "billing", "messaging.destination.partition.id": "Default",
	})
	require.Equal(t, "process", process.attributes["messaging.operation.type"])
	require.Equal(t, "settle", settled.attributes["messaging.operation.type"])
}

// A client without OpenTelemetry gets the context of the push in a header, and sends it back with its acknowledgment.
func TestATraceOverHTTP(t *testing.T) {
	for _, protocol := range []string{"http/protobuf", "grpc"} {
		t.Run(protocol, func(t *testing.T) {
			c := newCollector(t)
			endpoint := map[string]string{"http/protobuf": c.url, "grpc": c.grpc}[protocol]
			s, _ := startTraced(t, zap.WarnLevel, map[string]string{
				"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": protocol, "OTEL_SERVICE_NAME": "broker",
			})
			s.traced(t, post("/api/v1/push", `{"items":[{"queue":"orders","payload":1}]}`), callerContext)
			delivery, headers := s.popHeaders(t, "/api/v1/pop/queue/orders?consumerGroup=g")
			s.traced(t, post("/api/v1/ack", fmt.Sprintf(`{"transactionId":%q,"partitionId":%q,"leaseId":%q,"consumerGroup":"g","status":"completed"}`,
				delivery.Messages[0].TransactionID, delivery.Messages[0].PartitionID, delivery.Messages[0].LeaseID)), headers["traceparent"])
			s.traced(t, get("/api/v1/resources/queues/orders"), callerContext)
			publish := c.of(t, "broker", "publish orders")
			require.Equal(t, callerTrace, publish.trace)
			require.Equal(t, callerSpan, publish.parent)
			require.Equal(t, spanpb.Span_SPAN_KIND_PRODUCER, publish.kind)
			require.Equal(t, publish.traceparent(), headers["traceparent"])
			require.Equal(t, "4bf92f35-77b3-4da6-a3ce-929d0e0e4736", delivery.Messages[0].TraceID)
			for _, name := range []string{"receive orders", "settle"} {
				require.Equal(t, publish.trace, c.of(t, "broker", name).trace, name)
				require.Equal(t, publish.id, c.of(t, "broker", name).parent, name)
			}
			other := c.of(t, "broker", "GET /api/v1/resources/queues/:queue")
			require.Equal(t, spanpb.Span_SPAN_KIND_SERVER, other.kind)
			require.Equal(t, callerSpan, other.parent)
		})
	}
}

// A producer in SQL continues its trace with a header. A delivery of several messages has a trace of its own, with a link to each
// message. A pop that delivers nothing has no span.
func TestATraceFromSQLAndABatch(t *testing.T) {
	c := newCollector(t)
	s, _ := startTraced(t, zap.WarnLevel, map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": c.url + "/v1/traces"})
	s.traced(t, get("/api/v1/pop/queue/sql?wait=true&timeout=300"), "")
	execute(t, producer(t, s.dsn), `SELECT belfry.push('sql', '1'::json, headers => $1::json)`, `{"traceparent":"`+callerContext+`"}`)
	delivery, headers := s.popHeaders(t, "/api/v1/pop/queue/sql?consumerGroup=g")
	require.Equal(t, callerContext, headers["traceparent"])
	receive := c.of(t, "belfry", "receive sql")
	require.Equal(t, callerTrace, receive.trace)
	require.Equal(t, callerSpan, receive.parent)
	require.Less(t, time.Duration(receive.ended-receive.begun), 20*time.Second)
	s.traced(t, post("/api/v1/ack", fmt.Sprintf(`{"transactionId":%q,"partitionId":%q,"consumerGroup":"g","status":"completed"}`,
		delivery.Messages[0].TransactionID, delivery.Messages[0].PartitionID)), headers["traceparent"])
	require.Equal(t, callerTrace, c.of(t, "belfry", "settle").trace)

	own := strings.Replace(callerContext, callerSpan, "00f067aa0ba902b8", 1)
	s.traced(t, post("/api/v1/push", fmt.Sprintf(`{"items":[{"queue":"batch","payload":1,"headers":{"traceparent":%q}},{"queue":"batch","payload":2}]}`, own)), "")
	publish := c.of(t, "belfry", "publish batch")
	require.NotEqual(t, callerTrace, publish.trace)
	require.Equal(t, []string{callerTrace + "-00f067aa0ba902b8"}, publish.links)
	both, _ := s.popHeaders(t, "/api/v1/pop/queue/batch?batch=2")
	require.Len(t, both.Messages, 2)
	require.Equal(t, own, both.Messages[0].Headers["traceparent"], "a message keeps its header")
	require.Equal(t, publish.traceparent(), both.Messages[1].Headers["traceparent"])
	received := c.of(t, "belfry", "receive batch")
	require.Empty(t, received.parent)
	require.ElementsMatch(t, []string{callerTrace + "-00f067aa0ba902b8", publish.trace + "-" + publish.id}, received.links)
	require.NoError(t, s.stop(t))
	require.Len(t, c.named("receive sql"), 1, "the pop that delivered nothing has no span")
}

// A repeated transaction is recognized by a hash of its operations, so the server adds no header to them.
func TestARepeatedTransactionIsRecognizedWithTraces(t *testing.T) {
	c := newCollector(t)
	s, _ := startTraced(t, zap.WarnLevel, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.url})
	body := `{"operations":[{"type":"push","items":[{"queue":"q","payload":1,"transactionId":"1"}]}]}`
	for _, parent := range []string{callerContext, strings.Replace(callerContext, callerSpan, "00f067aa0ba902b9", 1)} {
		var result api.TransactionResult
		require.NoError(t, json.Unmarshal(s.traced(t, post("/api/v1/transaction", body), parent).Raw, &result))
		require.True(t, result.Success, result.Error)
	}
	require.Equal(t, callerTrace, c.of(t, "belfry", "transact").trace)
}

// Without a variable, the server exports nothing and changes no message. A variable can also turn off what another one turns on.
func TestWithoutASettingNothingIsExported(t *testing.T) {
	for name, env := range map[string]map[string]string{
		"nothing":  {},
		"disabled": {"OTEL_EXPORTER_OTLP_ENDPOINT": "", "OTEL_SDK_DISABLED": "true"},
		"none":     {"OTEL_EXPORTER_OTLP_ENDPOINT": "", "OTEL_TRACES_EXPORTER": "none"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCollector(t)
			set := maps.Clone(env)
			if _, ok := set["OTEL_EXPORTER_OTLP_ENDPOINT"]; ok {
				set["OTEL_EXPORTER_OTLP_ENDPOINT"] = c.url
			}
			s, logs := startTraced(t, zap.DebugLevel, set)
			s.traced(t, post("/api/v1/push", `{"items":[{"queue":"q","payload":1}]}`), callerContext)
			_, headers := s.popHeaders(t, "/api/v1/pop/queue/q?autoAck=true")
			require.Empty(t, headers)
			require.NoError(t, s.stop(t))
			require.Zero(t, c.requests())
			answered := logs.with("a request was answered")
			require.NotEmpty(t, answered)
			for _, line := range answered {
				require.NotContains(t, line, "trace_id")
			}
		})
	}
}

// The decision of the caller counts. A push without a caller and without a sampled span gets no header.
func TestSamplingIsRespected(t *testing.T) {
	c := newCollector(t)
	s, _ := startTraced(t, zap.WarnLevel, map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": c.url, "OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0",
	})
	push := func(queue, parent string) map[string]string {
		s.traced(t, post("/api/v1/push", fmt.Sprintf(`{"items":[{"queue":%q,"payload":1}]}`, queue)), parent)
		_, headers := s.popHeaders(t, "/api/v1/pop/queue/"+queue+"?autoAck=true")
		return headers
	}
	require.Empty(t, push("alone", ""))
	unsampled := push("unsampled", strings.TrimSuffix(callerContext, "01")+"00")["traceparent"]
	require.True(t, strings.HasPrefix(unsampled, "00-"+callerTrace+"-") && strings.HasSuffix(unsampled, "-00"), unsampled)
	require.NotEmpty(t, push("sampled", callerContext))
	require.NoError(t, s.stop(t))
	require.Equal(t, []string{"publish sampled", "receive sampled"}, c.names())
}

// The log lines of a request have the ids of its span. At the log level debug, the statements of a sampled request have spans.
func TestLogLinesAndStatementsBelongToTheTrace(t *testing.T) {
	c := newCollector(t)
	s, logs := startTraced(t, zap.DebugLevel, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.url})
	s.traced(t, post("/api/v1/push", `{"items":[{"queue":"q","payload":1}]}`), callerContext)
	s.popHeaders(t, "/api/v1/pop/queue/q?autoAck=true")
	publish, receive := c.of(t, "belfry", "publish q"), c.of(t, "belfry", "receive q")
	require.NoError(t, s.stop(t))
	for path, of := range map[string]span{"/api/v1/push": publish, "/api/v1/pop/queue/q": receive} {
		found := false
		for _, line := range logs.with("a request was answered") {
			if line["path"] == path {
				found = true
				require.Equal(t, of.trace, line["trace_id"], path)
				require.Equal(t, of.id, line["span_id"], path)
			}
		}
		require.True(t, found, path)
	}
	statements := 0
	for _, s := range c.spans {
		if strings.Contains(s.attributes["db.query.text"], "belfry.append(") && s.trace == publish.trace {
			statements++
		}
	}
	require.Equal(t, 1, statements, "the statement of the group commit that stores the message")
}

// A message of a schedule begins a trace. A message of an administrator's request belongs to the trace of the request.
func TestSchedulesStartTraces(t *testing.T) {
	c := newCollector(t)
	s, _ := startTraced(t, zap.WarnLevel, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.url})
	s.traced(t, put("/api/v1/schedules/tick", `{"queue":"ticks","every":"1s","payload":1,"headers":{"tenant":"acme"}}`), "")
	_, headers := s.popHeaders(t, "/api/v1/pop/queue/ticks?autoAck=true")
	publish, receive := c.of(t, "belfry", "publish ticks"), c.of(t, "belfry", "receive ticks")
	require.Equal(t, "acme", headers["tenant"])
	require.Empty(t, publish.parent)
	require.Equal(t, "tick", publish.attributes["belfry.schedule"])
	first := c.named("publish ticks")[0]
	require.Equal(t, first.traceparent(), headers["traceparent"])
	require.Equal(t, c.named("receive ticks")[0].trace, first.trace)
	require.NotEmpty(t, receive.parent)

	s.traced(t, put("/api/v1/schedules/day", `{"queue":"days","every":"24h","payload":1}`), "")
	s.traced(t, post("/api/v1/schedules/day/run", ""), callerContext)
	_, headers = s.popHeaders(t, "/api/v1/pop/queue/days?autoAck=true")
	run := c.of(t, "belfry", "POST /api/v1/schedules/:name/run")
	require.Equal(t, run.traceparent(), headers["traceparent"])
	require.Equal(t, callerTrace, run.trace)
}

// The metrics of Prometheus also go out by OTLP, without traces.
func TestMetricsAreExported(t *testing.T) {
	c := newCollector(t)
	s, _ := startTraced(t, zap.WarnLevel, map[string]string{
		"OTEL_METRICS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": c.url + "/v1/metrics", "OTEL_METRIC_EXPORT_INTERVAL": "100",
	})
	s.traced(t, post("/api/v1/push", `{"items":[{"queue":"q","payload":1}]}`), callerContext)
	until(t, "the metrics are exported", func() bool {
		return c.hasMetric("belfry_push_messages_total") && c.hasMetric("belfry_http_request_duration_seconds")
	})
	require.NoError(t, s.stop(t))
	require.Empty(t, c.names())
}

// A collector that does not answer delays the stop of a server by seconds, and fails no request.
func TestACollectorThatIsDown(t *testing.T) {
	s, logs := startTraced(t, zap.WarnLevel, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "otlp,zipkin"})
	s.traced(t, post("/api/v1/push", `{"items":[{"queue":"q","payload":1}]}`), callerContext)
	began := time.Now()
	require.NoError(t, s.stop(t))
	require.Less(t, time.Since(began), 15*time.Second)
	require.Len(t, logs.with("settings of OpenTelemetry that Belfry does not know were ignored"), 1)
	require.NotEmpty(t, logs.with("an export by OTLP failed; failures in the next minute are logged at debug"))
}

// A failed handler has a span with an error, and the next delivery continues the same trace.
func TestAFailedHandlerIsAnError(t *testing.T) {
	c := newCollector(t)
	s, _ := startTraced(t, zap.WarnLevel, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.url})
	client, err := goclient.New(goclient.Config{URLs: []string{s.base}, TracerProvider: provider(t, c)})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	_, err = client.Push(t.Context(), goclient.Item{Queue: "q", Payload: 1})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	require.NoError(t, goclient.Consume(ctx, client, goclient.ConsumeOptions{Queue: "q"}, func(_ context.Context, m *goclient.Message[int]) error {
		if m.Attempt == 1 {
			return errors.New("not yet")
		}
		stop()
		return nil
	}))
	until(t, "both handlers are exported", func() bool { return len(c.named("process q")) == 2 })
	both := c.named("process q")
	require.Equal(t, both[0].trace, both[1].trace)
	require.Equal(t, both[0].parent, both[1].parent)
}
