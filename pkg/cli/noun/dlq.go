package noun

import (
	"net/url"

	"github.com/spf13/pflag"

	"github.com/belfry-mq/belfry/pkg/cli/output"
	"github.com/belfry-mq/belfry/pkg/cli/request"
	"github.com/belfry-mq/belfry/pkg/cli/session"
	"github.com/belfry-mq/belfry/pkg/cli/verb"
	"github.com/belfry-mq/belfry/pkg/client"
)

var deadLetterColumns = []output.Column{
	{Title: "QUEUE", Path: "queue"}, {Title: "PARTITION", Path: "partition"}, {Title: "GROUP", Path: "consumerGroup"},
	{Title: "TRANSACTION-ID", Path: "transactionId"}, {Title: "FAILED", Path: "failedAt", Show: output.Age}, {Title: "RETRIES", Path: "retryCount"},
	{Title: "ERROR", Path: "errorMessage"}, {Title: "PARTITION-ID", Path: "partitionId", Wide: true}, {Title: "DATA", Path: "data", Wide: true},
}

// deadLetterFilter adds the flags that select dead letters.
func deadLetterFilter(f *pflag.FlagSet) {
	f.String("group", "", "only of this consumer group")
	deadLetterPlace(f)
}

func deadLetterPlace(f *pflag.FlagSet) {
	f.String("partition", "", "only of this partition")
	f.String("transaction-id", "", "only with this transaction id")
	f.String("from", "", "only failed since this instant, RFC 3339 or a time before now such as 15m or 2d")
	f.String("to", "", "only failed before this instant")
}

// deadLetterQuery returns the parameters of deadLetterFilter. queueName may be "".
func deadLetterQuery(in *verb.Input, queueName string) url.Values {
	query := in.Query("group", "consumerGroup", "partition", "partition", "transaction-id", "transactionId", "limit", "limit")
	for _, name := range []string{"from", "to"} {
		if at := in.Instant(name); at != "" {
			query.Set(name, at)
		}
	}
	if queueName != "" {
		query.Set("queue", queueName)
	}
	return query
}

// deadLetterVerbs are the verbs of dead letters.
var deadLetterVerbs = []*verb.Verb{
	{
		Use: "list", Short: "List dead letters, the newest first",
		Flags: func(f *pflag.FlagSet) {
			limitFlag(f)
			f.String("queue", "", "only of this queue")
			deadLetterFilter(f)
		},
		Named: theFlags,
		Request: func(in *verb.Input) client.Request {
			return request.Get("/api/v1/dlq", deadLetterQuery(in, in.Flag("queue")))
		},
		Rows: "messages", Columns: deadLetterColumns,
	},
	{
		Use: "show QUEUE TRANSACTION_ID", One: true, Short: "Show a dead letter with its payload and its error", Complete: []session.Completion{session.Queues},
		Request: func(in *verb.Input) client.Request {
			return request.Get("/api/v1/dlq", url.Values{"queue": {in.Args[0]}, "transactionId": {in.Args[1]}})
		},
		Rows: "messages", Columns: append(append([]output.Column{}, deadLetterColumns[:7]...), output.Column{Title: "DATA", Path: "data"}),
	},
	{
		Use: "redrive QUEUE", Short: "Deliver dead letters again", Complete: []session.Completion{session.Queues}, Change: true, ServerDryRun: true,
		Ask: "Redrive the dead letters of {0}?",
		Long: `Deliver dead letters of a queue again: those of one consumer group with --group, else those of all its groups. Name --all, or
which dead letters. With --to-queue they are pushed to another queue instead, and are no dead letters any more.`,
		Example: `  belfry dlq redrive orders --all --dry-run
  belfry dlq redrive orders --all --to-queue orders.parked
  belfry dlq redrive orders --group billing --from 2h`,
		Named: deadLetterOwner, Each: redriveEach,
		Flags: func(f *pflag.FlagSet) {
			deadLetterFilter(f)
			f.Bool("all", false, "every dead letter of the queue, or of the group")
			f.String("to-queue", "", "move the messages to this queue, which exists")
			f.Int("rate", 0, "most messages per second; 0 is no limit")
		},
		Request: redriveRequest, Repeat: []string{"redriven", "skipped"},
		Columns: []output.Column{
			{Title: "QUEUE", Path: "queue"}, {Title: "GROUP", Path: "consumerGroup"}, {Title: "DRY-RUN", Path: "dryRun"}, {Title: "MATCHED", Path: "matched"},
			{Title: "REDRIVEN", Path: "redriven"}, {Title: "SKIPPED", Path: "skipped"}, {Title: "REMAINING", Path: "remaining"},
		},
	},
	{
		Use: "purge QUEUE", Short: "Delete dead letters", Complete: []session.Completion{session.Queues}, Change: true, ServerDryRun: true,
		Ask: "Delete the dead letters of {0}?", Named: deadLetterOwner,
		Long: `Delete dead letters of a queue: those of one consumer group with --group, else those of all its groups. Name --all, or which
dead letters.`,
		Example: `  belfry dlq purge orders --all --dry-run
  belfry dlq purge orders --group billing --all`,
		Flags: func(f *pflag.FlagSet) {
			deadLetterFilter(f)
			f.Bool("all", false, "every dead letter of the queue, or of the group")
		},
		Request: func(in *verb.Input) client.Request {
			query := selectedDeadLetters(in)
			if in.DryRun {
				query.Set("dryRun", "true")
			}
			return request.Delete("/api/v1/dlq", query)
		},
		Repeat: []string{"purged"},
		Columns: []output.Column{
			{Title: "QUEUE", Path: "queue"}, {Title: "DRY-RUN", Path: "dryRun"}, {Title: "MATCHED", Path: "matched"}, {Title: "PURGED", Path: "purged"},
			{Title: "REMAINING", Path: "remaining"},
		},
	},
}

// selectedDeadLetters is deadLetterQuery for commands that change dead letters. It refuses a command line without --all that does
// not say which.
func selectedDeadLetters(in *verb.Input) url.Values {
	query := deadLetterQuery(in, in.Args[0])
	which := len(query) - 1 // without the queue
	if query.Has("consumerGroup") {
		which--
	}
	if which == 0 && in.Flag("all") != "true" && in.Err == nil {
		in.Err = session.UsageError("name --all, or which dead letters")
	}
	return query
}

// deadLetterOwner is the queue, the first argument, and the group of --group.
func deadLetterOwner(in *verb.Input) []verb.Thing {
	all := theQueue(in)
	if group := in.Flag("group"); group != "" {
		all = append(all, verb.GroupNamed(group, in.Args[0]))
	}
	return all
}

// redriveEach returns the requests for the groups that have dead letters, unless --group names one.
func redriveEach(in *verb.Input) (requests []client.Request, names []string, err error) {
	if in.Flag("group") != "" {
		return nil, nil, nil
	}
	all, err := groupsOf(in)
	for _, g := range all {
		if g.DeadLetters > 0 {
			requests, names = append(requests, redriveOf(in, g.Name)), append(names, g.Name)
		}
	}
	return requests, names, err
}

func redriveRequest(in *verb.Input) client.Request { return redriveOf(in, "__QUEUE_MODE__") }

// redriveOf returns the request for the group of --group, else for group.
func redriveOf(in *verb.Input, group string) client.Request {
	body := map[string]any{"consumerGroup": group}
	for parameter, values := range selectedDeadLetters(in) {
		body[parameter] = values[0]
	}
	if in.Flag("all") == "true" {
		body["all"] = true
	}
	if rate, err := in.Cmd.Flags().GetInt("rate"); err == nil && rate > 0 {
		body["rate"] = rate
	}
	if target := in.Flag("to-queue"); target != "" {
		body["toQueue"] = target
	}
	if in.DryRun {
		body["dryRun"] = true
	}
	return request.Post("/api/v1/dlq/redrive", nil, body)
}
