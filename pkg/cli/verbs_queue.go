package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/belfry-mq/belfry/pkg/client"
)

// The columns of what has messages.
var messageColumns = []column{
	{title: "TOTAL", path: "messages.total"}, {title: "PENDING", path: "messages.pending"}, {title: "PROCESSING", path: "messages.processing"},
}

var pausedColumns = []column{
	{title: "QUEUE", path: "queueName"}, {title: "PARTITION", path: "partitionName"}, {title: "GROUP", path: "consumerGroup"},
	{title: "PAUSED", path: "paused"}, {title: "CHANGED", path: "changed"},
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
		columns: append(append([]column{
			{title: "QUEUE", path: "name"}, {title: "NAMESPACE", path: "namespace", wide: true}, {title: "TASK", path: "task", wide: true},
			{title: "PARTITIONS", path: "partitions"},
		}, messageColumns...), column{title: "PAUSED", path: "paused"}, column{title: "AGE", path: "createdAt", show: age}),
	},
	{
		use: "get QUEUE", short: "Show a queue and its options", complete: []completion{queues},
		request: func(in *input) client.Request { return get("/api/v1/status/queues/"+in.arg(0), nil) },
		rows:    "queue",
		columns: []column{
			{title: "QUEUE", path: "name"}, {title: "NAMESPACE", path: "namespace"}, {title: "TASK", path: "task"}, {title: "PAUSED", path: "paused"},
			{title: "AGE", path: "createdAt", show: age}, {title: "OPTIONS", path: "options", show: settings},
		},
	},
	{
		use: "delete QUEUE", short: "Delete a queue with its messages, groups and dead letters", complete: []completion{queues},
		change: true, ask: "Delete the queue {0} with all its messages?",
		request: func(in *input) client.Request { return remove("/api/v1/resources/queues/"+in.arg(0), nil) },
		columns: []column{{title: "QUEUE", path: "queue"}, {title: "DELETED", path: "deleted"}, {title: "EXISTED", path: "existed"}},
	},
	{
		use: "pause QUEUE", short: "Deliver nothing of a queue until it is resumed", complete: []completion{queues}, change: true,
		request: func(in *input) client.Request { return post("/api/v1/resources/queues/"+in.arg(0)+"/pause", nil, nil) },
		columns: pausedColumns,
	},
	{
		use: "resume QUEUE", short: "Deliver the messages of a paused queue again", complete: []completion{queues}, change: true,
		request: func(in *input) client.Request { return post("/api/v1/resources/queues/"+in.arg(0)+"/resume", nil, nil) },
		columns: pausedColumns,
	},
}

var configuredColumns = []column{
	{title: "QUEUE", path: "queue"}, {title: "NAMESPACE", path: "namespace"}, {title: "TASK", path: "task"},
	{title: "OPTIONS", path: "options", show: settings},
}

// partitionVerbs are the verbs of partitions.
var partitionVerbs = []*verb{
	{
		use: "list QUEUE", short: "List the partitions of a queue", complete: []completion{queues}, flags: limitFlag,
		request: func(in *input) client.Request {
			return get("/api/v1/status/queues/"+in.arg(0), in.query("limit", "limit"))
		},
		rows: "partitions",
		columns: append(append([]column{{title: "PARTITION", path: "name"}}, messageColumns...),
			column{title: "DEAD", path: "messages.deadLetter"}, column{title: "PAUSED", path: "paused"},
			column{title: "OLDEST", path: "oldestMessage", show: age}, column{title: "NEWEST", path: "newestMessage", show: age},
			column{title: "ID", path: "id", wide: true}),
	},
	{
		use: "get QUEUE PARTITION", short: "Show what the reader without a group finds in a partition", complete: []completion{queues},
		flags: func(f *pflag.FlagSet) { f.String("group", "", "the consumer group") },
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
		request: func(in *input) client.Request {
			return post("/api/v1/resources/queues/"+in.arg(0)+"/partitions/"+in.arg(1)+"/pause", nil, nil)
		},
		columns: pausedColumns,
	},
	{
		use: "resume QUEUE PARTITION", short: "Deliver the messages of a paused partition again", complete: []completion{queues}, change: true,
		request: func(in *input) client.Request {
			return post("/api/v1/resources/queues/"+in.arg(0)+"/partitions/"+in.arg(1)+"/resume", nil, nil)
		},
		columns: pausedColumns,
	},
}

var explainColumns = []column{
	{title: "CODE", path: "code"}, {title: "LAG", path: "lag"}, {title: "NEXT-CHANGE", path: "nextChangeAt", show: age}, {title: "SENTENCE", path: "sentence"},
}

// optionOf reads NAME=VALUE. A value that is no JSON is a text.
func optionOf(pair string) (name string, value any, err error) {
	name, text, found := strings.Cut(pair, "=")
	if !found || name == "" {
		return "", nil, usageError(fmt.Sprintf("--option is %q: it must be NAME=VALUE", pair))
	}
	if json.Unmarshal([]byte(text), &value) != nil {
		value = text
	}
	return name, value, nil
}
