package noun

import (
	"net/url"

	"github.com/spf13/pflag"

	"github.com/belfry-mq/belfry/pkg/cli/output"
	"github.com/belfry-mq/belfry/pkg/cli/request"
	"github.com/belfry-mq/belfry/pkg/cli/verb"
	"github.com/belfry-mq/belfry/pkg/client"
)

var storedColumns = []output.Column{
	{Title: "QUEUE", Path: "queue"}, {Title: "PARTITION", Path: "partition"}, {Title: "TRANSACTION-ID", Path: "transactionId"},
	{Title: "STATUS", Path: "status"}, {Title: "AGE", Path: "createdAt", Show: output.Age}, {Title: "PARTITION-ID", Path: "partitionId"},
	{Title: "ID", Path: "id", Wide: true}, {Title: "TRACE-ID", Path: "traceId", Wide: true}, {Title: "PRODUCER", Path: "producerSub", Wide: true},
}

func messagePath(in *verb.Input) string { return "/api/v1/messages/" + in.Arg(0) + "/" + in.Arg(1) }

func groupFlag(f *pflag.FlagSet) {
	f.String("group", "", "the consumer group; the reader without a group if none is named")
}

// messageVerbs are the verbs of stored messages.
var messageVerbs = []*verb.Verb{
	{
		Use: "list", Short: "List stored messages, the newest first, without their payloads",
		Flags: func(f *pflag.FlagSet) {
			limitFlag(f)
			f.String("queue", "", "only of this queue")
			f.String("partition", "", "only of this partition")
			f.String("namespace", "", "only of queues of this namespace")
			f.String("task", "", "only of queues of this task")
			f.String("status", "", "only pending, processing, completed or dead_letter ones")
			f.String("from", "", "only stored since this instant, RFC 3339 or a time before now such as 15m or 2d (the server's default: 1h)")
			f.String("to", "", "only stored before this instant")
		},
		Request: func(in *verb.Input) client.Request {
			query := in.Query("limit", "limit", "queue", "queue", "partition", "partition", "namespace", "namespace", "task", "task", "status", "status")
			for _, name := range []string{"from", "to"} {
				if at := in.Instant(name); at != "" {
					query.Set(name, at)
				}
			}
			return request.Get("/api/v1/messages", query)
		},
		Named: theFlags,
		Rows:  "messages", Columns: storedColumns,
	},
	{
		Use: "get PARTITION_ID TRANSACTION_ID", Short: "Show a message with its payload",
		Request: func(in *verb.Input) client.Request { return request.Get(messagePath(in), nil) },
		Columns: append(append([]output.Column{}, storedColumns[:5]...), output.Column{Title: "PAYLOAD", Path: "payload"}),
	},
	{
		Use: "delete PARTITION_ID TRANSACTION_ID", Short: "Delete a message", Change: true, Ask: "Delete the message {1}?",
		Would: "delete the message {1}", Named: theMessage,
		Request: func(in *verb.Input) client.Request { return request.Delete(messagePath(in), nil) },
		Columns: []output.Column{{Title: "TRANSACTION-ID", Path: "transactionId"}, {Title: "DELETED", Path: "success"}, {Title: "MESSAGE", Path: "message"}},
	},
	{
		Use: "dlq PARTITION_ID TRANSACTION_ID", Short: "Make a message a dead letter of a group", Change: true, Ask: "Make the message {1} a dead letter?",
		Would: "make the message {1} a dead letter", Named: theMessage,
		Flags: func(f *pflag.FlagSet) {
			groupFlag(f)
			f.String("error", "", "why")
		},
		Request: func(in *verb.Input) client.Request {
			body := map[string]any{}
			for flag, member := range map[string]string{"group": "consumerGroup", "error": "error"} {
				if text := in.Flag(flag); text != "" {
					body[member] = text
				}
			}
			return request.Post(messagePath(in)+"/dlq", nil, body)
		},
		Columns: []output.Column{{Title: "TRANSACTION-ID", Path: "transactionId"}, {Title: "GROUP", Path: "consumerGroup"}, {Title: "DEAD", Path: "dlq"}},
	},
	{
		Use: "retry PARTITION_ID TRANSACTION_ID", Short: "Deliver a dead letter of a group again", Change: true, Flags: groupFlag,
		Would: "deliver the dead letter {1} again", Named: theMessage,
		Request: func(in *verb.Input) client.Request {
			body := map[string]any{}
			if group := in.Flag("group"); group != "" {
				body["consumerGroup"] = group
			}
			return request.Post(messagePath(in)+"/retry", nil, body)
		},
		Columns: []output.Column{{Title: "TRANSACTION-ID", Path: "transactionId"}, {Title: "GROUP", Path: "consumerGroup"}, {Title: "REDRIVEN", Path: "redriven"}},
	},
}

var traceColumns = []output.Column{
	{Title: "AT", Path: "created_at", Show: output.Age}, {Title: "TYPE", Path: "event_type"}, {Title: "QUEUE", Path: "queue_name"},
	{Title: "TRANSACTION-ID", Path: "transaction_id"}, {Title: "GROUP", Path: "consumer_group"}, {Title: "NAMES", Path: "trace_names", Show: output.List},
	{Title: "DATA", Path: "data"},
}

// traceVerbs are the verbs of traces.
var traceVerbs = []*verb.Verb{
	{
		Use: "names", Short: "List the names of traces", Flags: limitFlag,
		Request: func(in *verb.Input) client.Request {
			return request.Get("/api/v1/traces/names", in.Query("limit", "limit"))
		},
		Rows: "trace_names",
		Columns: []output.Column{
			{Title: "NAME", Path: "trace_name"}, {Title: "TRACES", Path: "trace_count"}, {Title: "MESSAGES", Path: "message_count"},
			{Title: "LAST", Path: "last_seen", Show: output.Age},
		},
	},
	{
		Use: "show NAME", Short: "Show the traces of a name", Flags: limitFlag,
		Request: func(in *verb.Input) client.Request {
			return request.Get("/api/v1/traces/by-name/"+in.Arg(0), in.Query("limit", "limit"))
		},
		Rows: "traces", Columns: traceColumns,
	},
	{
		Use: "message PARTITION_ID TRANSACTION_ID", Short: "Show the traces of a message",
		Request: func(in *verb.Input) client.Request {
			return request.Get("/api/v1/traces/"+in.Arg(0)+"/"+in.Arg(1), nil)
		},
		Rows: "traces", Columns: traceColumns,
	},
}

// streamVerbs are the verbs of streams.
var streamVerbs = []*verb.Verb{
	{
		Use: "list", Short: "List the queries of streams", Flags: limitFlag,
		Request: func(in *verb.Input) client.Request { return request.Get("/api/v1/streams", in.Query("limit", "limit")) },
		Rows:    "streams",
		Columns: []output.Column{
			{Title: "NAME", Path: "name"}, {Title: "SOURCE", Path: "sourceQueue"}, {Title: "SINK", Path: "sinkQueue"}, {Title: "ID", Path: "id"},
			{Title: "AGE", Path: "createdAt", Show: output.Age},
		},
	},
	{
		Use: "delete ID", Short: "Delete a query of a stream with its state", Change: true, Ask: "Delete the query {0} with its state?",
		Would: "delete the query {0} with its state", Named: theStream,
		Request: func(in *verb.Input) client.Request {
			return request.Delete("/api/v1/streams/"+url.PathEscape(in.Args[0]), nil)
		},
		Columns: []output.Column{{Title: "ID", Path: "id"}, {Title: "DELETED", Path: "deleted"}, {Title: "EXISTED", Path: "existed"}},
	},
}
