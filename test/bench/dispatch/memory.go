package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
	"github.com/belfry-mq/belfry/test/bench/rig"
)

// metric returns the value of a metric without labels.
func metric(ctx context.Context, c *load.Client, name string) (float64, error) {
	var text bytes.Buffer
	if _, err := c.Do(ctx, http.MethodGet, c.URL("/metrics/prometheus"), nil, &text); err != nil {
		return 0, err
	}
	for line := range strings.Lines(text.String()) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("the server has no metric %s", name)
}

// memoryMetrics are metrics about the memory of a Go server. The first is a number, and the others are in bytes.
var memoryMetrics = []struct{ name, what string }{
	{"go_goroutines", "goroutines"},
	{"go_memstats_stack_inuse_bytes", "stacks"},
	{"go_memstats_heap_alloc_bytes", "heap with garbage not yet collected"},
	{"go_memstats_heap_inuse_bytes", "heap pages in use"},
	{"go_memstats_next_gc_bytes", "heap at which garbage is collected next"},
}

// memory is the resident memory of a server in bytes, and the values of memoryMetrics.
type memory struct {
	resident int64
	metrics  []float64
}

func readMemory(ctx context.Context, server *rig.Server) (m memory, err error) {
	if m.resident, err = server.Memory(); err != nil {
		return m, err
	}
	for _, metrics := range memoryMetrics {
		value, err := metric(ctx, server.Client, metrics.name)
		if err != nil {
			return m, err
		}
		m.metrics = append(m.metrics, value)
	}
	return m, nil
}

// since describes the increase per waiting request.
func (m memory) since(before memory) string {
	var parts []string
	for i, metrics := range memoryMetrics {
		each := (m.metrics[i] - before.metrics[i]) / manyWaiting
		if i == 0 {
			parts = append(parts, fmt.Sprintf("%.1f %s", each, metrics.what))
			continue
		}
		parts = append(parts, fmt.Sprintf("%.1f KiB %s", each/1024, metrics.what))
	}
	return strings.Join(parts, ", ")
}
