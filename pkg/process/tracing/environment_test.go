package tracing_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/process/tracing"
)

func TestTheEnvironmentChooses(t *testing.T) {
	t.Parallel()
	const endpoint = "http://localhost:4318"
	for name, c := range map[string]struct {
		env  map[string]string
		want tracing.Choice
	}{
		"nothing":              {nil, tracing.Choice{}},
		"endpoint":             {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}, tracing.Choice{Traces: true}},
		"endpoint of traces":   {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": endpoint}, tracing.Choice{Traces: true}},
		"endpoint of metrics":  {map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": endpoint}, tracing.Choice{}},
		"exporter":             {map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, tracing.Choice{Traces: true}},
		"no exporter":          {map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}, tracing.Choice{}},
		"disabled":             {map[string]string{"OTEL_SDK_DISABLED": "TRUE", "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}, tracing.Choice{}},
		"metrics":              {map[string]string{"OTEL_METRICS_EXPORTER": "prometheus, otlp"}, tracing.Choice{Metrics: true}},
		"grpc":                 {map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_METRICS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, tracing.Choice{Traces: true, Metrics: true, TracesGRPC: true, MetricsGRPC: true}},
		"protocol of a signal": {map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, tracing.Choice{Traces: true}},
		"unknown": {map[string]string{"OTEL_TRACES_EXPORTER": "otlp,zipkin", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"},
			tracing.Choice{Traces: true, Ignored: []string{"OTEL_TRACES_EXPORTER=zipkin", "OTEL_EXPORTER_OTLP_PROTOCOL=http/json"}}},
	} {
		require.Equal(t, c.want, tracing.Choose(func(name string) string { return c.env[name] }), name)
	}
}
