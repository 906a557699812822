package answer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/cli/output"
	"github.com/belfry-mq/belfry/pkg/client/api"
)

// Explanation returns an explanation as text: the sentence, then the queue, the partition, the group and the message.
func Explanation(e *api.Explanation, now time.Time) string {
	lines := []string{output.Clean(e.Sentence), "queue " + output.Clean(e.Queue)}
	add := func(depth int, format string, args ...any) {
		lines = append(lines, strings.Repeat("   ", depth)+"└─ "+output.Clean(fmt.Sprintf(format, args...)))
	}
	if e.Partition == nil { // the search found no partition with the message
		return strings.Join(append(lines, "code "+e.Code), "\n")
	}
	add(0, "partition %s", *e.Partition)
	add(1, "group %s: %d messages to deliver, %d requests wait for this partition", e.ConsumerGroup, e.Lag, e.Waiting)
	if e.TransactionID != nil {
		add(2, "message %s: %d before it", *e.TransactionID, e.Ahead)
		for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
			add(3, "header %s: %s", name, e.Headers[name])
		}
	}
	if e.NextTransactionID != nil {
		add(2, "next: %s, delivered %d times, failed %d times", *e.NextTransactionID, e.Deliveries, e.Failures)
	}
	code := "code " + e.Code
	if e.NextChangeAt != nil {
		code += fmt.Sprintf(", until %s (%s)", e.NextChangeAt.Format(time.RFC3339), output.Short(now.Sub(*e.NextChangeAt)))
	}
	return strings.Join(append(lines, code), "\n")
}
