package answer

import (
	"fmt"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/cli/output"
)

// Explanation is the part of an answer of GET /api/v1/explain that the text shows.
type Explanation struct {
	Code              string     `json:"code"`
	Sentence          string     `json:"sentence"`
	NextChangeAt      *time.Time `json:"nextChangeAt"`
	Queue             string     `json:"queue"`
	Partition         string     `json:"partition"`
	ConsumerGroup     string     `json:"consumerGroup"`
	TransactionID     *string    `json:"transactionId"`
	NextTransactionID *string    `json:"nextTransactionId"`
	Failures          int64      `json:"failures"`
	Deliveries        int64      `json:"deliveries"`
	Lag               int64      `json:"lag"`
	Ahead             int64      `json:"ahead"`
	Waiting           int64      `json:"waiting"`
}

// Text shows an explanation as a sentence and what it is about.
func (e *Explanation) Text(now time.Time) string {
	lines := []string{output.Clean(e.Sentence), "queue " + output.Clean(e.Queue)}
	add := func(depth int, format string, args ...any) {
		lines = append(lines, strings.Repeat("   ", depth)+"└─ "+output.Clean(fmt.Sprintf(format, args...)))
	}
	if e.Partition == "" { // a search found the message in no partition
		return strings.Join(append(lines, "code "+e.Code), "\n")
	}
	add(0, "partition %s", e.Partition)
	add(1, "group %s: %d messages to come, %d requests wait here", e.ConsumerGroup, e.Lag, e.Waiting)
	if e.TransactionID != nil {
		add(2, "message %s: %d before it", *e.TransactionID, e.Ahead)
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
