package cli

import (
	"net/url"

	"github.com/spf13/pflag"

	"github.com/belfry-mq/belfry/pkg/cli/output"
	"github.com/belfry-mq/belfry/pkg/client"
)

// The columns of what has messages.
var messageColumns = []output.Column{
	{Title: "TOTAL", Path: "messages.total"}, {Title: "PENDING", Path: "messages.pending"}, {Title: "PROCESSING", Path: "messages.processing"},
}

var pausedColumns = []output.Column{
	{Title: "QUEUE", Path: "queueName"}, {Title: "PARTITION", Path: "partitionName"}, {Title: "GROUP", Path: "consumerGroup"},
	{Title: "PAUSED", Path: "paused"}, {Title: "CHANGED", Path: "changed"},
}

func limitFlag(f *pflag.FlagSet) { f.Int("limit", 100, "how many") }

// queueVerbs are the verbs of queues.
var queueVerbs = []*verb{
	{
		use: "list", short: "List the queues, with their messages",
		flags: func(f *pflag.FlagSet) {
			limitFlag(f)
			f.String("namespace", "", "only queues of this namespace")
			f.String("task", "", "only queues of this task")
		},
		request: func(in *input) client.Request {
			return get("/api/v1/status/queues", in.query("limit", "limit", "namespace", "namespace", "task", "task"))
		},
		rows: "queues",
		columns: append(append([]output.Column{
			{Title: "QUEUE", Path: "name"}, {Title: "NAMESPACE", Path: "namespace", Wide: true}, {Title: "TASK", Path: "task", Wide: true},
			{Title: "PARTITIONS", Path: "partitions"},
		}, messageColumns...), output.Column{Title: "PAUSED", Path: "paused"}, output.Column{Title: "AGE", Path: "createdAt", Show: output.Age}),
	},
	{
		use: "get QUEUE", short: "Show a queue and its options", complete: []completion{queues},
		request: func(in *input) client.Request { return get("/api/v1/status/queues/"+in.arg(0), nil) },
		rows:    "queue",
		columns: []output.Column{
			{Title: "QUEUE", Path: "name"}, {Title: "NAMESPACE", Path: "namespace"}, {Title: "TASK", Path: "task"}, {Title: "PAUSED", Path: "paused"},
			{Title: "AGE", Path: "createdAt", Show: output.Age}, {Title: "OPTIONS", Path: "options", Show: output.Settings},
		},
	},
	{
		use: "delete QUEUE", short: "Delete a queue with its messages, groups and dead letters", complete: []completion{queues},
		change: true, ask: "Delete the queue {0} with all its messages?", would: "delete the queue {0} with all its messages", named: theQueue,
		preview: func(in *input) client.Request {
			return get("/api/v1/resources/queues/"+in.arg(0), url.Values{"limit": {"1"}})
		},
		previewColumns: previewColumns.queue,
		request:        func(in *input) client.Request { return remove("/api/v1/resources/queues/"+in.arg(0), nil) },
		columns:        []output.Column{{Title: "QUEUE", Path: "queue"}, {Title: "DELETED", Path: "deleted"}, {Title: "EXISTED", Path: "existed"}},
	},
	{
		use: "pause QUEUE", short: "Deliver nothing of a queue until it is resumed", complete: []completion{queues}, change: true,
		would: "pause the queue {0}", named: theQueue,
		request: func(in *input) client.Request { return post("/api/v1/resources/queues/"+in.arg(0)+"/pause", nil, nil) },
		columns: pausedColumns,
	},
	{
		use: "resume QUEUE", short: "Deliver the messages of a paused queue again", complete: []completion{queues}, change: true,
		would: "resume the queue {0}", named: theQueue,
		request: func(in *input) client.Request { return post("/api/v1/resources/queues/"+in.arg(0)+"/resume", nil, nil) },
		columns: pausedColumns,
	},
}

var configuredColumns = []output.Column{
	{Title: "QUEUE", Path: "queue"}, {Title: "NAMESPACE", Path: "namespace"}, {Title: "TASK", Path: "task"},
	{Title: "OPTIONS", Path: "options", Show: output.Settings},
}

// partitionVerbs are the verbs of partitions.
var partitionVerbs = []*verb{
	{
		use: "list QUEUE", short: "List the partitions of a queue", complete: []completion{queues}, flags: limitFlag,
		request: func(in *input) client.Request {
			return get("/api/v1/status/queues/"+in.arg(0), in.query("limit", "limit"))
		},
		rows: "partitions",
		columns: append(append([]output.Column{{Title: "PARTITION", Path: "name"}}, messageColumns...),
			output.Column{Title: "DEAD", Path: "messages.deadLetter"}, output.Column{Title: "PAUSED", Path: "paused"},
			output.Column{Title: "OLDEST", Path: "oldestMessage", Show: output.Age}, output.Column{Title: "NEWEST", Path: "newestMessage", Show: output.Age},
			output.Column{Title: "ID", Path: "id", Wide: true}),
	},
	{
		use: "get QUEUE PARTITION", short: "Show what a group finds in a partition", complete: []completion{queues},
		flags: func(f *pflag.FlagSet) { groupFlag(f) },
		request: func(in *input) client.Request {
			query := in.query("group", "consumerGroup")
			query.Set("queue", in.args[0])
			query.Set("partition", in.args[1])
			return get("/api/v1/explain", query)
		},
		columns: explainColumns,
	},
	{
		use: "pause QUEUE PARTITION", short: "Deliver nothing of a partition until it is resumed", complete: []completion{queues}, change: true,
		would: "pause the partition {1} of {0}", named: thePartition,
		request: func(in *input) client.Request {
			return post("/api/v1/resources/queues/"+in.arg(0)+"/partitions/"+in.arg(1)+"/pause", nil, nil)
		},
		columns: pausedColumns,
	},
	{
		use: "resume QUEUE PARTITION", short: "Deliver the messages of a paused partition again", complete: []completion{queues}, change: true,
		would: "resume the partition {1} of {0}", named: thePartition,
		request: func(in *input) client.Request {
			return post("/api/v1/resources/queues/"+in.arg(0)+"/partitions/"+in.arg(1)+"/resume", nil, nil)
		},
		columns: pausedColumns,
	},
}

var explainColumns = []output.Column{
	{Title: "CODE", Path: "code"}, {Title: "LAG", Path: "lag"}, {Title: "NEXT-CHANGE", Path: "nextChangeAt", Show: output.Age}, {Title: "SENTENCE", Path: "sentence"},
}

var previewColumns = struct{ queue, seek []output.Column }{
	queue: []output.Column{
		{Title: "QUEUE", Path: "name"}, {Title: "TOTAL", Path: "totals.total"}, {Title: "PENDING", Path: "totals.pending"}, {Title: "PROCESSING", Path: "totals.processing"},
	},
	seek: []output.Column{
		{Title: "GROUP", Path: "consumerGroup"}, {Title: "QUEUE", Path: "queueName"}, {Title: "AGAIN", Path: "messagesAgain"}, {Title: "SKIPPED", Path: "messagesSkipped"},
		{Title: "LEASES-ENDED", Path: "leasesEnded"},
	},
}
