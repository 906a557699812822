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
var queueVerbs = []*verb.Verb{
	{
		Use: "list", Short: "List the queues, with their messages",
		Flags: func(f *pflag.FlagSet) {
			limitFlag(f)
			f.String("namespace", "", "only queues of this namespace")
			f.String("task", "", "only queues of this task")
		},
		Request: func(in *verb.Input) client.Request {
			return request.Get("/api/v1/status/queues", in.Query("limit", "limit", "namespace", "namespace", "task", "task"))
		},
		Rows: "queues",
		Columns: append(append([]output.Column{
			{Title: "QUEUE", Path: "name"}, {Title: "NAMESPACE", Path: "namespace", Wide: true}, {Title: "TASK", Path: "task", Wide: true},
			{Title: "PARTITIONS", Path: "partitions"},
		}, messageColumns...), output.Column{Title: "PAUSED", Path: "paused"}, output.Column{Title: "AGE", Path: "createdAt", Show: output.Age}),
	},
	{
		Use: "get QUEUE", Short: "Show a queue and its options", Complete: []session.Completion{session.Queues},
		Request: func(in *verb.Input) client.Request { return request.Get("/api/v1/status/queues/"+in.Arg(0), nil) },
		Rows:    "queue",
		Columns: []output.Column{
			{Title: "QUEUE", Path: "name"}, {Title: "NAMESPACE", Path: "namespace"}, {Title: "TASK", Path: "task"}, {Title: "PAUSED", Path: "paused"},
			{Title: "AGE", Path: "createdAt", Show: output.Age}, {Title: "OPTIONS", Path: "options", Show: output.Settings},
		},
	},
	{
		Use: "delete QUEUE", Short: "Delete a queue with its messages, groups and dead letters", Complete: []session.Completion{session.Queues},
		Change: true, Ask: "Delete the queue {0} with all its messages?", Would: "delete the queue {0} with all its messages", Named: theQueue,
		Preview: func(in *verb.Input) client.Request {
			return request.Get("/api/v1/resources/queues/"+in.Arg(0), url.Values{"limit": {"1"}})
		},
		PreviewColumns: previewColumns.queue,
		Request:        func(in *verb.Input) client.Request { return request.Delete("/api/v1/resources/queues/"+in.Arg(0), nil) },
		Columns:        []output.Column{{Title: "QUEUE", Path: "queue"}, {Title: "DELETED", Path: "deleted"}, {Title: "EXISTED", Path: "existed"}},
	},
	{
		Use: "pause QUEUE", Short: "Deliver nothing of a queue until it is resumed", Complete: []session.Completion{session.Queues}, Change: true,
		Would: "pause the queue {0}", Named: theQueue,
		Request: func(in *verb.Input) client.Request {
			return request.Post("/api/v1/resources/queues/"+in.Arg(0)+"/pause", nil, nil)
		},
		Columns: pausedColumns,
	},
	{
		Use: "resume QUEUE", Short: "Deliver the messages of a paused queue again", Complete: []session.Completion{session.Queues}, Change: true,
		Would: "resume the queue {0}", Named: theQueue,
		Request: func(in *verb.Input) client.Request {
			return request.Post("/api/v1/resources/queues/"+in.Arg(0)+"/resume", nil, nil)
		},
		Columns: pausedColumns,
	},
}

var configuredColumns = []output.Column{
	{Title: "QUEUE", Path: "queue"}, {Title: "NAMESPACE", Path: "namespace"}, {Title: "TASK", Path: "task"},
	{Title: "OPTIONS", Path: "options", Show: output.Settings},
}

// partitionVerbs are the verbs of partitions.
var partitionVerbs = []*verb.Verb{
	{
		Use: "list QUEUE", Short: "List the partitions of a queue", Complete: []session.Completion{session.Queues}, Flags: limitFlag,
		Request: func(in *verb.Input) client.Request {
			return request.Get("/api/v1/status/queues/"+in.Arg(0), in.Query("limit", "limit"))
		},
		Rows: "partitions",
		Columns: append(append([]output.Column{{Title: "PARTITION", Path: "name"}}, messageColumns...),
			output.Column{Title: "DEAD", Path: "messages.deadLetter"}, output.Column{Title: "PAUSED", Path: "paused"},
			output.Column{Title: "OLDEST", Path: "oldestMessage", Show: output.Age}, output.Column{Title: "NEWEST", Path: "newestMessage", Show: output.Age},
			output.Column{Title: "ID", Path: "id", Wide: true}),
	},
	{
		Use: "get QUEUE PARTITION", Short: "Show what a group finds in a partition", Complete: []session.Completion{session.Queues},
		Flags: func(f *pflag.FlagSet) { groupFlag(f) },
		Request: func(in *verb.Input) client.Request {
			query := in.Query("group", "consumerGroup")
			query.Set("queue", in.Args[0])
			query.Set("partition", in.Args[1])
			return request.Get("/api/v1/explain", query)
		},
		Columns: explainColumns,
	},
	{
		Use: "pause QUEUE PARTITION", Short: "Deliver nothing of a partition until it is resumed", Complete: []session.Completion{session.Queues}, Change: true,
		Would: "pause the partition {1} of {0}", Named: thePartition,
		Request: func(in *verb.Input) client.Request {
			return request.Post("/api/v1/resources/queues/"+in.Arg(0)+"/partitions/"+in.Arg(1)+"/pause", nil, nil)
		},
		Columns: pausedColumns,
	},
	{
		Use: "resume QUEUE PARTITION", Short: "Deliver the messages of a paused partition again", Complete: []session.Completion{session.Queues}, Change: true,
		Would: "resume the partition {1} of {0}", Named: thePartition,
		Request: func(in *verb.Input) client.Request {
			return request.Post("/api/v1/resources/queues/"+in.Arg(0)+"/partitions/"+in.Arg(1)+"/resume", nil, nil)
		},
		Columns: pausedColumns,
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
