package cli

import (
	"encoding/json"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-mq/belfry/pkg/cli/answer"
	"github.com/belfry-mq/belfry/pkg/cli/request"
	"github.com/belfry-mq/belfry/pkg/cli/session"
	"github.com/belfry-mq/belfry/pkg/cli/verb"
	"github.com/belfry-mq/belfry/pkg/client/api"
)

// watchInterval is the time between two requests of explain --watch.
const watchInterval = time.Second

func newExplain() *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Say why a group receives a message, or why not",
		Long: `Say in one sentence why a consumer group receives the messages of a partition, or why not. With --transaction-id, the
sentence is about one message. --watch prints the sentence again whenever it changes, until Ctrl-C.`,
		Example: `  belfry explain --queue orders --partition customer-7 --group billing
  belfry explain --queue orders --transaction-id order-1 --watch`,
		Args: cobra.NoArgs,
		RunE: session.RunPatient(func(s *session.Session, _ []string) error {
			in := &verb.Input{Session: s}
			query := in.Query("queue", "partition", "group=consumerGroup", "transaction-id=transactionId")
			if !query.Has("queue") {
				return session.UsageError("--queue is missing")
			}
			if watch {
				s.Note("waiting for changes until Ctrl-C")
			}
			return explain(s, query, watch)
		}),
	}
	session.AddFlags(cmd)
	f := cmd.Flags()
	f.String("queue", "", "the queue")
	f.String("partition", "", "the partition; without this flag the partition Default, or the partition of the message of --transaction-id")
	f.String("group", "", "the consumer group; without this flag __QUEUE_MODE__, the group of requests without a group")
	f.String("transaction-id", "", "explain the message with this transaction id")
	f.BoolVar(&watch, "watch", false, "print the sentence again whenever it changes, until Ctrl-C")
	return cmd
}

func explain(s *session.Session, query url.Values, watch bool) error {
	ctx := s.Cmd.Context()
	last := ""
	for {
		var raw []byte
		var e api.Explanation
		err := s.Client.Do(ctx, request.Get("/api/v1/explain", query), &raw)
		if err == nil {
			err = json.Unmarshal(raw, &e)
		}
		switch {
		case err != nil && ctx.Err() != nil:
			return nil // Ctrl-C
		case err != nil:
			return err
		case e.Code+e.Sentence == last:
		case s.IsTable():
			err = s.Text(answer.Explanation(&e, time.Now()))
		default:
			err = s.Answer(raw, "", "")
		}
		if err != nil || !watch {
			return err
		}
		last = e.Code + e.Sentence
		if !session.Sleep(ctx, watchInterval) {
			return nil
		}
	}
}
