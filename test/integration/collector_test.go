package integration_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	spanpb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// span is an exported span.
type span struct {
	name, trace, id, parent, service string
	kind                             spanpb.Span_SpanKind
	attributes                       map[string]string
	// links are pairs of a trace and a span, joined by -.
	links []string
	// begun and ended are nanoseconds since 1970.
	begun, ended uint64
}

// traceparent returns the header that names the span as a parent.
func (s span) traceparent() string { return "00-" + s.trace + "-" + s.id + "-01" }

// collector receives OTLP over HTTP and over gRPC.
type collector struct {
	tracepb.UnimplementedTraceServiceServer
	url, grpc string

	mu      sync.Mutex
	spans   []span
	metrics map[string]bool
	// calls counts the requests over HTTP.
	calls int
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{metrics: map[string]bool{}}
	web := httptest.NewServer(c)
	t.Cleanup(web.Close)
	c.url = web.URL
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c.grpc = "http://" + listener.Addr().String()
	remote := grpc.NewServer()
	tracepb.RegisterTraceServiceServer(remote, c)
	served := make(chan error, 1)
	go func() { served <- remote.Serve(listener) }()
	t.Cleanup(func() {
		remote.Stop()
		require.NoError(t, <-served)
	})
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil && r.Header.Get("Content-Encoding") == "gzip" {
		var plain *gzip.Reader
		if plain, err = gzip.NewReader(bytes.NewReader(body)); err == nil {
			body, err = io.ReadAll(plain)
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	c.calls++
	c.mu.Unlock()
	switch r.URL.Path {
	case "/v1/traces":
		var sent tracepb.ExportTraceServiceRequest
		if err = proto.Unmarshal(body, &sent); err == nil {
			c.add(&sent)
		}
	case "/v1/metrics":
		var sent metricspb.ExportMetricsServiceRequest
		if err = proto.Unmarshal(body, &sent); err == nil {
			c.addMetrics(&sent)
		}
	default:
		http.NotFound(w, r)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

// Export receives spans over gRPC.
func (c *collector) Export(_ context.Context, sent *tracepb.ExportTraceServiceRequest) (*tracepb.ExportTraceServiceResponse, error) {
	c.add(sent)
	return &tracepb.ExportTraceServiceResponse{}, nil
}

func (c *collector) add(sent *tracepb.ExportTraceServiceRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range sent.GetResourceSpans() {
		service := attributesOf(resource.GetResource().GetAttributes())["service.name"]
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				one := span{
					name: s.GetName(), trace: hex.EncodeToString(s.GetTraceId()), id: hex.EncodeToString(s.GetSpanId()),
					parent: hex.EncodeToString(s.GetParentSpanId()), service: service, kind: s.GetKind(), attributes: attributesOf(s.GetAttributes()),
					begun: s.GetStartTimeUnixNano(), ended: s.GetEndTimeUnixNano(),
				}
				for _, link := range s.GetLinks() {
					one.links = append(one.links, hex.EncodeToString(link.GetTraceId())+"-"+hex.EncodeToString(link.GetSpanId()))
				}
				c.spans = append(c.spans, one)
			}
		}
	}
}

func (c *collector) addMetrics(sent *metricspb.ExportMetricsServiceRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range sent.GetResourceMetrics() {
		for _, scope := range resource.GetScopeMetrics() {
			for _, metric := range scope.GetMetrics() {
				c.metrics[metric.GetName()] = true
			}
		}
	}
}

// attributesOf returns attributes as texts.
func attributesOf(all []*commonpb.KeyValue) map[string]string {
	texts := map[string]string{}
	for _, one := range all {
		texts[one.GetKey()] = one.GetValue().GetStringValue()
		if texts[one.GetKey()] == "" {
			texts[one.GetKey()] = one.GetValue().String()
		}
	}
	return texts
}

// named returns the spans with a name, in the order of their arrival.
func (c *collector) named(name string) (all []span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.name == name {
			all = append(all, s)
		}
	}
	return all
}

// of returns the only span of a service with a name. It waits for the span.
func (c *collector) of(t *testing.T, service, name string) (found span) {
	t.Helper()
	until(t, "the span "+name+" of "+service+" is exported", func() bool {
		for _, s := range c.named(name) {
			if s.service == service {
				found = s
			}
		}
		return found.id != ""
	})
	return found
}

// names returns the names of all spans.
func (c *collector) names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := map[string]bool{}
	for _, s := range c.spans {
		seen[s.name] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// hasMetric reports whether a metric was received.
func (c *collector) hasMetric(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.metrics[name]
}

func (c *collector) requests() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls
}
