package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-mq/belfry/pkg/cli/output"
)

// watchInterval is how often explain --watch asks.
const watchInterval = time.Second

// explanation is the part of the answer that the text shows.
type explanation struct {
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

func newExplain() *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Say why a group receives a message, or does not",
		Long: `Say in one sentence why a consumer group receives messages of a partition, or one message, or why it does not. --watch
prints the sentence again whenever it changes, until Ctrl-C.`,
		Example: `  belfry explain --queue orders --partition customer-7 --group billing
  belfry explain --queue orders --transaction-id order-1 --watch`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := newPatientSession(cmd)
			if err != nil {
				return err
			}
			in := &input{session: s}
			query := in.query("queue", "queue", "partition", "partition", "group", "consumerGroup", "transaction-id", "transactionId")
			if !query.Has("queue") {
				return usageError("--queue is missing")
			}
			return s.explain(query, watch)
		},
	}
	addFlags(cmd)
	f := cmd.Flags()
	f.String("queue", "", "the queue")
	f.String("partition", "", "the partition; Default if none is named")
	f.String("group", "", "the consumer group; the reader without a group if none is named")
	f.String("transaction-id", "", "ask for the message with this transaction id")
	f.BoolVar(&watch, "watch", false, "print the sentence again whenever it changes, until Ctrl-C")
	return cmd
}

func (s *session) explain(query url.Values, watch bool) error {
	ctx := s.cmd.Context()
	last := ""
	for {
		var answer []byte
		var e explanation
		err := s.client.Do(ctx, get("/api/v1/explain", query), &answer)
		if err == nil {
			err = json.Unmarshal(answer, &e)
		}
		switch {
		case err != nil && ctx.Err() != nil:
			return nil // Ctrl-C
		case err != nil:
			return err
		case e.Code+e.Sentence == last:
		case s.IsTable():
			err = s.text(e.tree(time.Now()))
		default:
			err = s.Answer(answer, "", nil)
		}
		if err != nil || !watch {
			return err
		}
		last = e.Code + e.Sentence
		if !rest(ctx, watchInterval) {
			return nil
		}
	}
}

// rest blocks for d, and returns false at once when ctx ends.
func rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// text prints lines for people.
func (s *session) text(text string) error {
	if s.Quiet {
		return nil
	}
	return s.Write([]byte(text))
}

// tree shows an explanation as a sentence and what it is about.
func (e *explanation) tree(now time.Time) string {
	lines := []string{output.Clean(e.Sentence), "queue " + output.Clean(e.Queue)}
	add := func(depth int, format string, args ...any) {
		lines = append(lines, strings.Repeat("   ", depth)+"└─ "+output.Clean(fmt.Sprintf(format, args...)))
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
