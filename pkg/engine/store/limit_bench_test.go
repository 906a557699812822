package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// BenchmarkPopAndAckOfLimitedGroups compares groups in turns: a pop of one message with its ack. The tenth percentile excludes most
// noise of a busy machine.
func BenchmarkPopAndAckOfLimitedGroups(tb *testing.B) {
	const loose = `"rateLimit":{"messages":1000000,"per":"1s"}`
	groups := []struct{ name, limits string }{
		{"free", ""}, {"concurrency", `{"concurrency":10000}`}, {"rate", "{" + loose + "}"}, {"both", `{"concurrency":10000,` + loose + "}"},
		{"few-places", `{"concurrency":1}`},
	}
	b := newBench(tb)
	for _, partition := range numbered("p", 100) {
		b.push(partition, numbered("m", 20)...)
	}
	const warm = 30
	for _, g := range groups {
		require.Len(tb, b.pop(request(g.name, 1, withAutoAck(true))).Messages, 1)
		if g.limits != "" {
			b.scan(`SELECT changed FROM belfry.set_limits('q', $1, $2)`, []any{g.name, g.limits}, new(bool))
		}
	}
	took := make([][]time.Duration, len(groups))
	for i := range min(tb.N, 1900) + warm {
		for at, g := range groups {
			begun := time.Now()
			d := b.pop(request(g.name, 1))
			require.Len(tb, d.Messages, 1, fmt.Sprint(g.name, i))
			b.ack(d, queue.AckCompleted, d.Messages...)
			if i >= warm {
				took[at] = append(took[at], time.Since(begun))
			}
		}
	}
	for at, g := range groups {
		slices.Sort(took[at])
		tb.ReportMetric(float64(took[at][len(took[at])/10].Microseconds()), "µs/"+g.name)
	}
}
