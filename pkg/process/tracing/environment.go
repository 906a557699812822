package tracing

import (
	"slices"
	"strings"
)

// Choice says what to export, and by which protocol.
type Choice struct {
	Traces, Metrics         bool
	TracesGRPC, MetricsGRPC bool
	// Ignored has the values of variables that Belfry does not know, as NAME=value.
	Ignored []string
}

// Choose reads the environment variables that turn exports on. Traces are exported if OTEL_TRACES_EXPORTER has otlp. If that
// variable is not set, they are exported if an endpoint for traces is set. Metrics are exported only if OTEL_METRICS_EXPORTER has
// otlp, because Prometheus reads the same metrics. OTEL_SDK_DISABLED=true turns both off.
func Choose(getenv func(string) string) (c Choice) {
	if strings.EqualFold(strings.TrimSpace(getenv("OTEL_SDK_DISABLED")), "true") {
		return c
	}
	set := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return strings.TrimSpace(getenv(name)) != "" })
	}
	c.Traces = c.exports(getenv, "OTEL_TRACES_EXPORTER") ||
		!set("OTEL_TRACES_EXPORTER") && set("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	c.Metrics = c.exports(getenv, "OTEL_METRICS_EXPORTER")
	if c.Traces {
		c.TracesGRPC = c.usesGRPC(getenv, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
	}
	if c.Metrics {
		c.MetricsGRPC = c.usesGRPC(getenv, "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL")
	}
	return c
}

// exports reports whether a list of exporters has otlp.
func (c *Choice) exports(getenv func(string) string, name string) (otlp bool) {
	for exporter := range strings.SplitSeq(getenv(name), ",") {
		switch exporter = strings.TrimSpace(exporter); exporter {
		case "otlp":
			otlp = true
		case "", "none":
		case "prometheus": // GET /metrics/prometheus is always there
		default:
			c.Ignored = append(c.Ignored, name+"="+exporter)
		}
	}
	return otlp
}

// usesGRPC reports whether the protocol of a signal is grpc. The default is http/protobuf.
func (c *Choice) usesGRPC(getenv func(string) string, own string) bool {
	for _, name := range []string{own, "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		switch protocol := strings.TrimSpace(getenv(name)); protocol {
		case "grpc":
			return true
		case "http/protobuf":
			return false
		case "":
		default:
			c.Ignored = append(c.Ignored, name+"="+protocol)
			return false
		}
	}
	return false
}
