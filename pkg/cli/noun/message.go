package noun

import (
	"net/url"

	"github.com/spf13/pflag"

	"github.com/belfry-mq/belfry/pkg/cli/request"
	"github.com/belfry-mq/belfry/pkg/cli/verb"
	"github.com/belfry-mq/belfry/pkg/client"
)

const storedColumns = "QUEUE:queue PARTITION:partition TRANSACTION-ID:transactionId STATUS:status AGE:createdAt:age "

func messagePath(in *verb.Input) string { return "/api/v1/messages/" + in.Arg(0) + "/" + in.Arg(1) }

// bodyOf returns a request body with the parameters that are not empty.
func bodyOf(query url.Values) map[string]any {
	body := map[string]any{}
	for parameter := range query {
		if text := query.Get(parameter); text != "" {
			body[parameter] = text
		}
	}
	return body
}

func groupFlag(f *pflag.FlagSet) {
	f.String("group", "", "the consumer group; without this flag __QUEUE_MODE__, the group of requests without a group")
}

// messageVerbs are the commands of the noun messages.
var messageVerbs = []*verb.Verb{
	{
		Use: "list", Short: "List stored messages without their payloads, newest first",
		Flags: func(f *pflag.FlagSet) {
			limitFlag(f)
			f.String("queue", "", "only messages of this queue")
			f.String("partition", "", "only messages of this partition")
			f.String("transaction-id", "", "only the message with this transaction id; needs --queue and --partition")
			f.String("namespace", "", "only messages of queues of this namespace")
			f.String("task", "", "only messages of queues of this task")
			f.String("status", "", "only messages with this status: pending, processing, completed or dead_letter")
			f.String("from", "", "only messages stored since this time, RFC 3339 or a time before now such as 15m or 2d (default of the server: 1h)")
			f.String("to", "", "only messages stored before this time")
		},
		Request: func(in *verb.Input) client.Request {
			return request.Get("/api/v1/messages", in.SpanQuery("limit", "queue", "partition", "transaction-id=transactionId", "namespace", "task", "status"))
		},
		Named: theFlags,
		Rows:  "messages", Columns: storedColumns + "PARTITION-ID:partitionId ID:id:wide TRACE-ID:traceId:wide PRODUCER:producerSub:wide",
	},
	{
		Use: "get PARTITION_ID TRANSACTION_ID", Short: "Show a message with its payload",
		Request: func(in *verb.Input) client.Request { return request.Get(messagePath(in), nil) },
		Columns: storedColumns + "PAYLOAD:payload",
	},
	{
		Use: "delete PARTITION_ID TRANSACTION_ID", Short: "Delete a message", Change: true, Ask: "Delete the message {1}?",
		Would: "delete the message {1}", Named: theMessage,
		Request: func(in *verb.Input) client.Request { return request.Delete(messagePath(in), nil) },
		Columns: "TRANSACTION-ID:transactionId DELETED:success MESSAGE:message",
	},
	{
		Use: "dlq PARTITION_ID TRANSACTION_ID", Short: "Make a message a dead letter of a group", Change: true, Ask: "Make the message {1} a dead letter?",
		Would: "make the message {1} a dead letter", Named: theMessage,
		Flags: func(f *pflag.FlagSet) {
			groupFlag(f)
			f.String("error", "", "the reason, which the dead letter shows")
		},
		Request: func(in *verb.Input) client.Request {
			return request.Post(messagePath(in)+"/dlq", nil, bodyOf(in.Query("group=consumerGroup", "error")))
		},
		Columns: "TRANSACTION-ID:transactionId GROUP:consumerGroup DEAD:dlq",
	},
	{
		Use: "discard PARTITION_ID TRANSACTION_ID", Short: "Delete a dead letter of a group", Change: true, Flags: groupFlag,
		Ask: "Delete the dead letter {1}? No group receives it again.", Would: "delete the dead letter {1}", Named: theMessage,
		Request: func(in *verb.Input) client.Request {
			return request.Delete(messagePath(in)+"/dlq", in.Query("group=consumerGroup"))
		},
		Columns: "TRANSACTION-ID:transactionId GROUP:consumerGroup DISCARDED:discarded",
	},
	{
		Use: "retry PARTITION_ID TRANSACTION_ID", Short: "Deliver a dead letter of a group again", Change: true, Flags: groupFlag,
		Would: "deliver the dead letter {1} again", Named: theMessage,
		Request: func(in *verb.Input) client.Request {
			return request.Post(messagePath(in)+"/retry", nil, bodyOf(in.Query("group=consumerGroup")))
		},
		Columns: "TRANSACTION-ID:transactionId GROUP:consumerGroup REDRIVEN:redriven",
	},
	{
		Use: "attempts PARTITION_ID TRANSACTION_ID", Short: "List the failed deliveries of a message, newest first",
		Flags: func(f *pflag.FlagSet) { f.String("group", "", "only attempts of this consumer group") },
		Request: func(in *verb.Input) client.Request {
			return request.Get(messagePath(in)+"/attempts", in.Query("group=consumerGroup"))
		},
		Rows: "attempts", Columns: `GROUP:consumerGroup NUMBER:number DELIVERED:deliveredAt FAILED:failedAt RESULT:result CONSUMER:consumer
			INSTANCE:instance:wide ERROR:error`,
	},
	resendVerb(false), moveVerb,
}

const traceColumns = `AT:created_at:age TYPE:event_type QUEUE:queue_name TRANSACTION-ID:transaction_id GROUP:consumer_group
	NAMES:trace_names:list DATA:data`

// traceVerbs are the commands of the noun trace.
var traceVerbs = []*verb.Verb{
	{
		Use: "names", Short: "List the names of traces", Flags: limitFlag,
		Request: func(in *verb.Input) client.Request {
			return request.Get("/api/v1/traces/names", in.Query("limit"))
		},
		Rows:    "trace_names",
		Columns: "NAME:trace_name TRACES:trace_count MESSAGES:message_count LAST:last_seen:age",
	},
	{
		Use: "show NAME", Short: "Show the traces of a name", Flags: limitFlag,
		Request: func(in *verb.Input) client.Request {
			return request.Get("/api/v1/traces/by-name/"+in.Arg(0), in.Query("limit"))
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

// streamVerbs are the commands of the noun streams.
var streamVerbs = []*verb.Verb{
	{
		Use: "list", Short: "List the queries of streams", Flags: limitFlag,
		Request: func(in *verb.Input) client.Request { return request.Get("/api/v1/streams", in.Query("limit")) },
		Rows:    "streams",
		Columns: "NAME:name SOURCE:sourceQueue SINK:sinkQueue ID:id AGE:createdAt:age",
	},
	{
		Use: "delete ID", Short: "Delete a query of a stream with its state", Change: true, Ask: "Delete the query {0} with its state?",
		Would: "delete the query {0} with its state", Named: theStream,
		Request: func(in *verb.Input) client.Request {
			return request.Delete("/api/v1/streams/"+url.PathEscape(in.Args[0]), nil)
		},
		Columns: "ID:id DELETED:deleted EXISTED:existed",
	},
}
