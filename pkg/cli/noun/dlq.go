package noun

import (
	"net/url"

	"github.com/spf13/pflag"

	"github.com/belfry-mq/belfry/pkg/cli/request"
	"github.com/belfry-mq/belfry/pkg/cli/session"
	"github.com/belfry-mq/belfry/pkg/cli/verb"
	"github.com/belfry-mq/belfry/pkg/client"
)

const deadLetterColumns = `QUEUE:queue PARTITION:partition GROUP:consumerGroup TRANSACTION-ID:transactionId FAILED:failedAt:age
	RETRIES:retryCount ERROR:errorMessage `

const jobColumns = "JOB:id QUEUE:queue GROUP:consumerGroup STATE:state REDRIVEN:redriven MATCHED:matched RATE:rate"

// deadLetterFilter adds the flags that select dead letters.
func deadLetterFilter(f *pflag.FlagSet) {
	f.String("group", "", "only dead letters of this consumer group")
	f.String("partition", "", "only dead letters of this partition")
	f.String("transaction-id", "", "only dead letters with this transaction id")
	f.String("error", "", "only dead letters with this error; the first 200 characters count")
	f.String("error-shape", "", "only dead letters whose error has this shape, see dlq errors")
	f.String("from", "", "only messages that failed since this time, RFC 3339 or a time before now such as 15m or 2d")
	f.String("to", "", "only messages that failed before this time")
}

// deadLetterQuery returns the query parameters for the flags of deadLetterFilter. queueName may be "".
func deadLetterQuery(in *verb.Input, queueName string) url.Values {
	query := in.SpanQuery("group=consumerGroup", "partition", "transaction-id=transactionId", "error", "error-shape=errorShape", "limit")
	if queueName != "" {
		query.Set("queue", queueName)
	}
	return query
}

// deadLetterVerbs are the commands of the noun dlq.
var deadLetterVerbs = []*verb.Verb{
	{
		Use: "list", Short: "List dead letters, newest first",
		Flags: func(f *pflag.FlagSet) {
			limitFlag(f)
			f.String("queue", "", "only dead letters of this queue")
			deadLetterFilter(f)
		},
		Named: theFlags,
		Request: func(in *verb.Input) client.Request {
			return request.Get("/api/v1/dlq", deadLetterQuery(in, in.Flag("queue")))
		},
		Rows: "messages", Columns: deadLetterColumns + "PARTITION-ID:partitionId:wide DATA:data:wide",
	},
	{
		Use: "show QUEUE TRANSACTION_ID", One: true, Short: "Show a dead letter with its payload and its error", Complete: []session.Completion{session.Queues},
		Request: func(in *verb.Input) client.Request {
			return request.Get("/api/v1/dlq", url.Values{"queue": {in.Args[0]}, "transactionId": {in.Args[1]}})
		},
		Rows: "messages", Columns: deadLetterColumns + "DATA:data",
	},
	{
		Use: "count QUEUE", Short: "Count dead letters exactly", Complete: []session.Completion{session.Queues}, Named: deadLetterOwner,
		Long:  `Count the dead letters of a queue. The flags select some of them. Without flags, the command counts all.`,
		Flags: deadLetterFilter,
		Request: func(in *verb.Input) client.Request {
			query := deadLetterQuery(in, in.Args[0])
			query.Set("limit", "1")
			return request.Get("/api/v1/dlq", query)
		},
		Columns: "COUNT:total",
	},
	{
		Use: "errors", Short: "Count dead letters by the shape of their errors",
		Long: `Count dead letters by the shape of their errors. The shape has a mark for each number, id and quoted text, so similar errors
count together. The command examines the newest 10,000 dead letters. Give a shape to --error-shape of the other commands.`,
		Flags: func(f *pflag.FlagSet) {
			f.String("queue", "", "only dead letters of this queue")
			deadLetterFilter(f)
		},
		Named: theFlags,
		Request: func(in *verb.Input) client.Request {
			return request.Get("/api/v1/dlq/summary", deadLetterQuery(in, in.Flag("queue")))
		},
		Rows: "shapes", Columns: "QUEUE:queue GROUP:consumerGroup COUNT:count TEXTS:texts FIRST:oldest:age LAST:newest:age SHAPE:errorShape EXAMPLE:example:wide",
	},
	{
		Use: "redrive QUEUE", Short: "Deliver dead letters again", Complete: []session.Completion{session.Queues}, Change: true, ServerDryRun: true,
		Ask: "Redrive the dead letters of {0}?",
		Long: `Deliver dead letters of a queue again. Choose them with --partition, --transaction-id, --error, --error-shape, --from
or --to, or give --all. With --group, the command redrives only dead letters of that consumer group. Without --group, it redrives the dead letters of
all groups. With --to-queue, it pushes the messages to another queue instead, and deletes the dead letters.`,
		Example: `  belfry dlq redrive orders --all --dry-run
  belfry dlq redrive orders --all --to-queue orders.parked
  belfry dlq redrive orders --group billing --from 2h`,
		Named: deadLetterOwner, Each: redriveEach,
		Flags: func(f *pflag.FlagSet) {
			deadLetterFilter(f)
			f.Bool("all", false, "every dead letter of the queue, or of the group")
			f.String("to-queue", "", "move the messages to this queue, which must exist")
			f.Int("rate", 0, "maximum messages per second; 0 is no limit")
		},
		Request: redriveRequest, Repeat: []string{"redriven", "skipped"},
		Columns: `QUEUE:queue GROUP:consumerGroup DRY-RUN:dryRun MATCHED:matched REDRIVEN:redriven SKIPPED:skipped
			REMAINING:remaining`,
	},
	{
		Use: "start-job QUEUE", Short: "Deliver dead letters of one group again, as a job of the server", Complete: []session.Completion{session.Queues}, Change: true,
		Ask: "Redrive the dead letters of {0}?", Would: "start a redrive job for the queue {0}", Named: deadLetterOwner,
		Long: `Start a redrive that the server runs until its end. Choose the dead letters as for "belfry dlq redrive". "belfry dlq jobs" shows
the progress.`,
		Example: `  belfry dlq start-job orders --group billing --all --rate 50`,
		Flags: func(f *pflag.FlagSet) {
			deadLetterFilter(f)
			f.Bool("all", false, "every dead letter of the group")
			f.Int("rate", 0, "maximum messages per second; 0 is no limit")
		},
		Request: func(in *verb.Input) client.Request {
			r := redriveRequest(in)
			r.Path = "/api/v1/dlq/jobs"
			return r
		},
		Columns: jobColumns,
	},
	{
		Use: "jobs", Short: "List the redrive jobs, newest first", Request: fixed("/api/v1/dlq/jobs"), Rows: "jobs",
		Columns: jobColumns + " CREATED:createdAt:age SUBJECT:subject INSTANCE:instance:wide ERROR:error:wide",
	},
	{
		Use: "stop-job JOB", Short: "Stop a redrive job", Change: true, Would: "stop the redrive job {0}",
		Request: func(in *verb.Input) client.Request {
			return request.Post("/api/v1/dlq/jobs/"+url.PathEscape(in.Args[0])+"/stop", nil, nil)
		},
		Columns: jobColumns,
	},
	{
		Use: "purge QUEUE", Short: "Delete dead letters", Complete: []session.Completion{session.Queues}, Change: true, ServerDryRun: true,
		Ask: "Delete the dead letters of {0}?", Named: deadLetterOwner,
		Long: `Delete dead letters of a queue. Choose them with --partition, --transaction-id, --error, --error-shape, --from
or --to, or give --all. With --group, the command deletes only dead letters of that consumer group. Without --group, it
deletes the dead letters of all groups. The command counts first. It deletes only dead letters that existed at the count.
With --save, it first writes them to a new file, one JSON object on each line. It deletes nothing before the file is on
the disk.`,
		Example: `  belfry dlq purge orders --all --dry-run
  belfry dlq purge orders --group billing --all
  belfry dlq purge orders --all --save removed.ndjson`,
		Flags: func(f *pflag.FlagSet) {
			deadLetterFilter(f)
			f.Bool("all", false, "every dead letter of the queue, or of the group")
			f.String("save", "", "first write the dead letters to this new file")
		},
		Save: &verb.Save{Wanted: func(in *verb.Input) bool { return in.Flag("save") != "" }, Write: saveDeadLetters},
		Request: func(in *verb.Input) client.Request {
			query := selectedDeadLetters(in)
			if in.DryRun {
				query.Set("dryRun", "true")
			}
			return request.Delete("/api/v1/dlq", query)
		},
		Repeat:  []string{"purged"},
		Columns: "QUEUE:queue DRY-RUN:dryRun MATCHED:matched PURGED:purged REMAINING:remaining",
	},
	resendVerb(true),
}

// selectedDeadLetters is deadLetterQuery for commands that change dead letters. It returns an error if the command
// line has neither --all nor a flag that selects dead letters.
func selectedDeadLetters(in *verb.Input) url.Values {
	query := deadLetterQuery(in, in.Args[0])
	which := len(query) - 1 // the query always has the queue
	if query.Has("consumerGroup") {
		which--
	}
	if which == 0 && in.Flag("all") != "true" && in.Err == nil {
		in.Err = session.UsageError("choose dead letters with --partition, --transaction-id, --error, --error-shape, --from or --to, or give --all")
	}
	return query
}

// deadLetterOwner returns the queue in the first argument and the group of --group.
func deadLetterOwner(in *verb.Input) []verb.Thing { return queueAndGroup(in, in.Args[0]) }

// redriveEach returns one request for each group with dead letters. With --group it returns none, so redriveRequest
// makes the only request.
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

// redriveOf returns the redrive request for group, or for the group of --group.
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
