package cli

import (
	"net/url"

	"github.com/spf13/pflag"

	"github.com/belfry-mq/belfry/pkg/cli/output"
	"github.com/belfry-mq/belfry/pkg/client"
)

var storedColumns = []output.Column{
	{Title: "QUEUE", Path: "queue"}, {Title: "PARTITION", Path: "partition"}, {Title: "TRANSACTION-ID", Path: "transactionId"},
	{Title: "STATUS", Path: "status"}, {Title: "AGE", Path: "createdAt", Show: output.Age}, {Title: "PARTITION-ID", Path: "partitionId"},
	{Title: "ID", Path: "id", Wide: true}, {Title: "TRACE-ID", Path: "traceId", Wide: true}, {Title: "PRODUCER", Path: "producerSub", Wide: true},
}

func messagePath(in *input) string { return "/api/v1/messages/" + in.arg(0) + "/" + in.arg(1) }

func groupFlag(f *pflag.FlagSet) {
	f.String("group", "", "the consumer group; the reader without a group if none is named")
}

// messageVerbs are the verbs of stored messages.
var messageVerbs = []*verb{
	{
		use: "list", short: "List stored messages, the newest first, without their payloads",
		flags: func(f *pflag.FlagSet) {
			limitFlag(f)
			f.String("queue", "", "only of this queue")
			f.String("partition", "", "only of this partition")
			f.String("namespace", "", "only of queues of this namespace")
			f.String("task", "", "only of queues of this task")
			f.String("status", "", "only pending, processing, completed or dead_letter ones")
			f.String("from", "", "only stored since this instant, RFC 3339 or a time before now such as 15m or 2d (the server's default: 1h)")
			f.String("to", "", "only stored before this instant")
		},
		request: func(in *input) client.Request {
			query := in.query("limit", "limit", "queue", "queue", "partition", "partition", "namespace", "namespace", "task", "task", "status", "status")
			for _, name := range []string{"from", "to"} {
				if at := in.instant(name); at != "" {
					query.Set(name, at)
				}
			}
			return get("/api/v1/messages", query)
		},
		named: theFlags,
		rows:  "messages", columns: storedColumns,
	},
	{
		use: "get PARTITION_ID TRANSACTION_ID", short: "Show a message with its payload",
		request: func(in *input) client.Request { return get(messagePath(in), nil) },
		columns: append(append([]output.Column{}, storedColumns[:5]...), output.Column{Title: "PAYLOAD", Path: "payload"}),
	},
	{
		use: "delete PARTITION_ID TRANSACTION_ID", short: "Delete a message", change: true, ask: "Delete the message {1}?",
		would: "delete the message {1}", named: theMessage,
		request: func(in *input) client.Request { return remove(messagePath(in), nil) },
		columns: []output.Column{{Title: "TRANSACTION-ID", Path: "transactionId"}, {Title: "DELETED", Path: "success"}, {Title: "MESSAGE", Path: "message"}},
	},
	{
		use: "dlq PARTITION_ID TRANSACTION_ID", short: "Make a message a dead letter of a group", change: true, ask: "Make the message {1} a dead letter?",
		would: "make the message {1} a dead letter", named: theMessage,
		flags: func(f *pflag.FlagSet) {
			groupFlag(f)
			f.String("error", "", "why")
		},
		request: func(in *input) client.Request {
			body := map[string]any{}
			for flag, member := range map[string]string{"group": "consumerGroup", "error": "error"} {
				if text := in.flag(flag); text != "" {
					body[member] = text
				}
			}
			return post(messagePath(in)+"/dlq", nil, body)
		},
		columns: []output.Column{{Title: "TRANSACTION-ID", Path: "transactionId"}, {Title: "GROUP", Path: "consumerGroup"}, {Title: "DEAD", Path: "dlq"}},
	},
	{
		use: "retry PARTITION_ID TRANSACTION_ID", short: "Deliver a dead letter of a group again", change: true, flags: groupFlag,
		would: "deliver the dead letter {1} again", named: theMessage,
		request: func(in *input) client.Request {
			body := map[string]any{}
			if group := in.flag("group"); group != "" {
				body["consumerGroup"] = group
			}
			return post(messagePath(in)+"/retry", nil, body)
		},
		columns: []output.Column{{Title: "TRANSACTION-ID", Path: "transactionId"}, {Title: "GROUP", Path: "consumerGroup"}, {Title: "REDRIVEN", Path: "redriven"}},
	},
}

var traceColumns = []output.Column{
	{Title: "AT", Path: "created_at", Show: output.Age}, {Title: "TYPE", Path: "event_type"}, {Title: "QUEUE", Path: "queue_name"},
	{Title: "TRANSACTION-ID", Path: "transaction_id"}, {Title: "GROUP", Path: "consumer_group"}, {Title: "NAMES", Path: "trace_names", Show: output.List},
	{Title: "DATA", Path: "data"},
}

// traceVerbs are the verbs of traces.
var traceVerbs = []*verb{
	{
		use: "names", short: "List the names of traces", flags: limitFlag,
		request: func(in *input) client.Request { return get("/api/v1/traces/names", in.query("limit", "limit")) },
		rows:    "trace_names",
		columns: []output.Column{
			{Title: "NAME", Path: "trace_name"}, {Title: "TRACES", Path: "trace_count"}, {Title: "MESSAGES", Path: "message_count"},
			{Title: "LAST", Path: "last_seen", Show: output.Age},
		},
	},
	{
		use: "show NAME", short: "Show the traces of a name", flags: limitFlag,
		request: func(in *input) client.Request {
			return get("/api/v1/traces/by-name/"+in.arg(0), in.query("limit", "limit"))
		},
		rows: "traces", columns: traceColumns,
	},
	{
		use: "message PARTITION_ID TRANSACTION_ID", short: "Show the traces of a message",
		request: func(in *input) client.Request { return get("/api/v1/traces/"+in.arg(0)+"/"+in.arg(1), nil) },
		rows:    "traces", columns: traceColumns,
	},
}

// streamVerbs are the verbs of streams.
var streamVerbs = []*verb{
	{
		use: "list", short: "List the queries of streams", flags: limitFlag,
		request: func(in *input) client.Request { return get("/api/v1/streams", in.query("limit", "limit")) },
		rows:    "streams",
		columns: []output.Column{
			{Title: "NAME", Path: "name"}, {Title: "SOURCE", Path: "sourceQueue"}, {Title: "SINK", Path: "sinkQueue"}, {Title: "ID", Path: "id"},
			{Title: "AGE", Path: "createdAt", Show: output.Age},
		},
	},
	{
		use: "delete ID", short: "Delete a query of a stream with its state", change: true, ask: "Delete the query {0} with its state?",
		would: "delete the query {0} with its state", named: theStream,
		request: func(in *input) client.Request { return remove("/api/v1/streams/"+url.PathEscape(in.args[0]), nil) },
		columns: []output.Column{{Title: "ID", Path: "id"}, {Title: "DELETED", Path: "deleted"}, {Title: "EXISTED", Path: "existed"}},
	},
}
