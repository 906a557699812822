package tracing

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/exaring/otelpgx"
	"github.com/go-logr/logr/funcr"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	noopmetric "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"
)

const (
	// scope is the name of the instrumentation.
	scope = "github.com/belfry-mq/belfry"
	// complaintInterval is the shortest time between two log lines about failed exports.
	complaintInterval = time.Minute
)

// Deps are the dependencies of Start.
type Deps struct {
	// Getenv is os.Getenv. The SDK reads further variables itself.
	Getenv func(string) string
	// Metrics are exported if OTEL_METRICS_EXPORTER asks for it.
	Metrics prometheus.Gatherer
	// Version is the version of the server.
	Version string
	Log     *zap.Logger
}

// Telemetry exports spans and metrics.
type Telemetry struct {
	// Tracer makes spans. It is nil if traces are off.
	Tracer *Tracer
	// Statements makes spans of database statements. It is nil if traces are off or the log level is not debug.
	Statements pgx.QueryTracer
	closers    []func(context.Context) error
}

// Start starts the exports that the environment asks for. It opens no connection before the first export. It fails if a variable
// of the exporters is not valid.
func Start(ctx context.Context, deps Deps) (*Telemetry, error) {
	t := &Telemetry{}
	choice := Choose(deps.Getenv)
	if len(choice.Ignored) > 0 {
		deps.Log.Warn("settings of OpenTelemetry that Belfry does not know were ignored", zap.Strings("settings", choice.Ignored))
	}
	if !choice.Traces && !choice.Metrics {
		return t, nil
	}
	report(deps.Log)
	described, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "belfry"), attribute.String("service.version", deps.Version)),
		resource.WithHost(), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil { // described has the parts that are valid
		deps.Log.Warn("the attributes of OpenTelemetry's resource are incomplete", zap.Error(err))
	}
	if choice.Traces {
		if err := t.startTraces(ctx, choice, described, deps); err != nil {
			return nil, err
		}
	}
	if choice.Metrics {
		if err := t.startMetrics(ctx, choice, described, deps); err != nil {
			return nil, errors.Join(err, t.Close(ctx))
		}
	}
	deps.Log.Info("exporting by OTLP", zap.Bool("traces", choice.Traces), zap.Bool("metrics", choice.Metrics),
		zap.Bool("statements", t.Statements != nil))
	return t, nil
}

func (t *Telemetry) startTraces(ctx context.Context, choice Choice, described *resource.Resource, deps Deps) error {
	client := otlptracehttp.NewClient()
	if choice.TracesGRPC {
		client = otlptracegrpc.NewClient()
	}
	exporter, err := otlptrace.New(ctx, client)
	if err != nil {
		return fmt.Errorf("starting the export of traces: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(described))
	t.closers = append(t.closers, provider.Shutdown)
	t.Tracer = NewTracer(provider)
	if deps.Log.Core().Enabled(zap.DebugLevel) {
		t.Statements = otelpgx.NewTracer(otelpgx.WithTracerProvider(provider), otelpgx.WithMeterProvider(noopmetric.NewMeterProvider()))
	}
	return nil
}

func (t *Telemetry) startMetrics(ctx context.Context, choice Choice, described *resource.Resource, deps Deps) error {
	var exporter sdkmetric.Exporter
	var err error
	if choice.MetricsGRPC {
		exporter, err = otlpmetricgrpc.New(ctx)
	} else {
		exporter, err = otlpmetrichttp.New(ctx)
	}
	if err != nil {
		return fmt.Errorf("starting the export of metrics: %w", err)
	}
	reader := sdkmetric.NewPeriodicReader(exporter, sdkmetric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(deps.Metrics))))
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithResource(described))
	t.closers = append(t.closers, provider.Shutdown)
	return nil
}

// Close exports what is not exported yet, and stops. It blocks until ctx ends.
func (t *Telemetry) Close(ctx context.Context) error {
	var failed error
	for _, end := range t.closers {
		failed = errors.Join(failed, end(ctx))
	}
	return failed
}

// report writes the errors of the SDK to the log. The SDK has one receiver of errors for the process.
func report(log *zap.Logger) {
	var last atomic.Int64
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		now := time.Now().UnixNano()
		level := log.Debug
		if before := last.Load(); now-before >= int64(complaintInterval) && last.CompareAndSwap(before, now) {
			level = log.Warn
		}
		level("an export by OTLP failed; failures in the next minute are logged at debug", zap.Error(err))
	}))
	otel.SetLogger(funcr.New(func(_, text string) { log.Warn("the SDK of OpenTelemetry wrote a message", zap.String("text", text)) }, funcr.Options{Verbosity: 1}))
}
