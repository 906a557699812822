package noun

import (
	"cmp"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/belfry-mq/belfry/pkg/cli/request"
	"github.com/belfry-mq/belfry/pkg/cli/session"
	"github.com/belfry-mq/belfry/pkg/cli/verb"
	"github.com/belfry-mq/belfry/pkg/client"
	"github.com/belfry-mq/belfry/pkg/client/api"
)

func spanFlags(f *pflag.FlagSet) {
	f.String("from", "", "since this time, RFC 3339 or a time before now such as 15m or 2d")
	f.String("to", "", "until this time")
	f.String("queue", "", "only this queue")
	f.String("group", "", "only this consumer group")
	f.String("namespace", "", "only queues of this namespace")
	f.String("task", "", "only queues of this task")
}

func spanRequest(path string) func(in *verb.Input) client.Request {
	return func(in *verb.Input) client.Request {
		return request.Get(path, in.SpanQuery("queue", "group=consumerGroup", "namespace", "task"))
	}
}

func fixed(path string) func(in *verb.Input) client.Request {
	return func(*verb.Input) client.Request { return request.Get(path, nil) }
}

// serverVerbs are the commands that begin with a verb.
var serverVerbs = []*verb.Verb{
	{
		Use: "status", Short: "Show counts of all queues and the lag", Request: fixed("/api/v1/resources/overview"),
		Columns: `QUEUES:queues PARTITIONS:partitions TOTAL:messages.total PENDING:messages.pending
			PROCESSING:messages.processing DEAD:messages.deadLetter MAX-LAG-SECONDS:lag.time.max
			IN/S:throughput.ingestedPerSecond OUT/S:throughput.processedPerSecond`,
	},
	{
		Use: "lag", Short: "List the partitions in which consumer groups are late", Flags: lagFlags, Request: lagRequest, Columns: lagColumns,
	},
	{
		Use: "waiting", Short: "Show the requests that wait at this server, by queue and group", Request: fixed("/api/v1/status/dispatcher"),
		Rows: "groups",
		Columns: `QUEUE:queue PARTITION:partition NAMESPACE:namespace TASK:task GROUP:consumerGroup WAITING:waiting
			OLDEST-SECONDS:oldestSeconds`,
	},
	{
		Use: "history", Short: "Show the throughput, the lag and the backlog of each queue over time", Flags: spanFlags, Request: spanRequest("/api/v1/analytics/queue-ops"), Rows: "series",
		Columns: `AT:bucket QUEUE:queueName PUSHED:pushMessages POPPED:popMessages ACKED:ackSuccess FAILED:ackFailed RETRIED:ackRetried DEAD:dlqCount
			AVG-LAG-MS:avgLagMs P99-MS:p99Ms BACKLOG:backlog OLDEST-SECONDS:oldestSeconds`,
	},
	{
		Use: "audit", Short: "List the changes that operators made, newest first",
		Flags: func(f *pflag.FlagSet) {
			limitFlag(f)
			f.String("action", "", "only this action, such as queue.delete")
			f.String("queue", "", "only changes of this queue")
			f.String("group", "", "only changes of this consumer group")
			f.String("subject", "", "only changes by this principal")
			f.String("from", "", "since this time, RFC 3339 or a time before now such as 15m or 2d")
			f.String("to", "", "until this time")
		},
		Request: func(in *verb.Input) client.Request {
			return request.Get("/api/v1/audit", in.SpanQuery("limit", "action", "queue", "group=consumerGroup", "subject"))
		},
		Rows: "entries",
		Columns: `AT:at SUBJECT:subject ACTION:action QUEUE:queue PARTITION:partition:wide GROUP:consumerGroup RESULT:result
			COUNTS:counts UNDOABLE:undoable ID:id PARAMETERS:parameters:wide REQUEST-ID:requestId:wide`,
	},
	{
		Use: "pauses", Short: "List what is paused, with the reasons",
		Flags: func(f *pflag.FlagSet) { f.String("queue", "", "only pauses in this queue") },
		Request: func(in *verb.Input) client.Request {
			return request.Get("/api/v1/pauses", in.SpanQuery("queue"))
		},
		Rows: "pauses", Columns: "QUEUE:queue PARTITION:partition GROUP:consumerGroup REASON:reason",
	},
	{
		Use: "whoami", Short: "Show the subject, the role and the grants of the token", Request: fixed("/api/v1/whoami"),
		Columns: "SUBJECT:subject ROLE:role EXPIRES:expiresAt GRANTS:grants AUTHENTICATED:authenticated:wide",
	},
	{
		Use: "sweeps", Short: "Show the maintenance jobs and the time of their next run", Request: fixed("/api/v1/status/sweeps"), Rows: "sweeps",
		Columns: "JOB:job RUNNING:running NEXT:nextAt:age",
	},
	{
		Use: "replay QUEUE", Short: "Move a group back to a time, so that it receives the messages since that time again", Complete: []session.Completion{session.Queues}, Change: true,
		Ask:   "Move the group in {0}? It receives the messages since that time again, and no earlier message.",
		Would: "move the group in the queue {0}", Named: func(in *verb.Input) []verb.Thing { return theGroup(replayed(in)) },
		Preview: func(in *verb.Input) client.Request {
			return request.Get(groupPath(replayed(in))+"/seek", map[string][]string{"timestamp": {in.Instant("to")}})
		},
		PreviewColumns: previewSeek,
		Long: `Move a consumer group to a time. The group receives every message since that time, even if it received the message
before. It does not receive earlier messages, even if it never received them. "belfry lag" shows the lag of a group.
"belfry group seek" moves a group to other positions.`,
		Example: `  belfry replay orders --group billing --to '15m ago'`,
		Flags: func(f *pflag.FlagSet) {
			groupFlag(f)
			f.String("to", "", "the time, RFC 3339 or a time before now such as 15m or 2d")
		},
		Request: func(in *verb.Input) client.Request {
			at := in.Instant("to")
			if at == "" && in.Err == nil {
				in.Err = session.UsageError("--to is missing: give the time of the first message to deliver again")
			}
			if when, err := time.Parse(time.RFC3339Nano, at); err == nil && when.After(time.Now()) && in.Err == nil {
				in.Err = session.UsageError("--to is in the future: the group would miss messages; use \"belfry group seek GROUP QUEUE --to-end\" to skip all stored messages")
			}
			return request.Post(groupPath(replayed(in))+"/seek", map[string][]string{"timestamp": {at}}, nil)
		},
		Columns: seekColumns,
	},
}

// replayed returns an Input with the arguments GROUP QUEUE of a replay.
func replayed(in *verb.Input) *verb.Input {
	return &verb.Input{Session: in.Session, Args: []string{cmp.Or(in.Flag("group"), "__QUEUE_MODE__"), in.Args[0]}}
}

// namespaceVerbs and taskVerbs are the commands of the nouns namespace and task.
var (
	namespaceVerbs = []*verb.Verb{{
		Use: "list", Short: "List the namespaces of queues", Request: fixed("/api/v1/resources/namespaces"), Rows: "namespaces",
		Columns: "NAMESPACE:namespace QUEUES:queues PARTITIONS:partitions TOTAL:messages.total PENDING:messages.pending",
	}}
	taskVerbs = []*verb.Verb{{
		Use: "list", Short: "List the tasks of queues", Request: fixed("/api/v1/resources/tasks"), Rows: "tasks",
		Columns: "TASK:task QUEUES:queues PARTITIONS:partitions TOTAL:messages.total PENDING:messages.pending",
	}}
)

// switchVerb returns a verb that turns a maintenance switch on or off.
func switchVerb(use, short, path string, on bool, ask string) *verb.Verb {
	return &verb.Verb{
		Use: use, Short: short, Change: true, Ask: ask, Would: strings.ToLower(short[:1]) + short[1:],
		Request: func(*verb.Input) client.Request { return request.Post(path, nil, api.Switch{Enabled: on}) },
		Columns: "MESSAGE:message",
	}
}

const rejectedColumns = "QUEUE:queue PARTITION:partition TRANSACTION-ID:transactionId REJECTED:rejectedAt:age REASON:reason DATA:data:wide"

const maintenancePath = "/api/v1/system/maintenance"

// maintenanceVerbs are the commands of the noun maintenance.
var maintenanceVerbs = []*verb.Verb{
	{
		Use: "show", Short: "Show the maintenance switches, and the number of messages in the spools", Request: fixed(maintenancePath),
		Columns: `PUSH-MAINTENANCE:maintenanceMode POP-MAINTENANCE:popMaintenanceMode BUFFERED:bufferedMessages
			REJECTED:bufferStats.failedCount HEALTHY:bufferHealthy`,
	},
	switchVerb("push-on", "Write pushes to the spools on the disks of the instances", maintenancePath, true, "Begin push maintenance on all instances?"),
	switchVerb("push-off", "Store pushes in the database again, and the messages in the spools", maintenancePath, false, ""),
	switchVerb("pop-on", "Answer every pop without messages", maintenancePath+"/pop", true, "Begin pop maintenance on all instances?"),
	switchVerb("pop-off", "Deliver messages again", maintenancePath+"/pop", false, ""),
	{
		Use: "rejected", Short: "List the spooled messages that the database refused", Request: fixed(maintenancePath + "/rejected"), Rows: "messages",
		Columns: rejectedColumns,
	},
	{
		Use: "retry", Short: "Put the rejected messages back into the spool", Change: true, Would: "put these messages back into the spool",
		Preview: fixed(maintenancePath + "/rejected"), PreviewRows: "messages", PreviewColumns: rejectedColumns,
		Request: func(*verb.Input) client.Request { return request.Post(maintenancePath+"/rejected/retry", nil, nil) },
		Columns: "MESSAGES:messages",
	},
	{
		Use: "discard", Short: "Remove the rejected messages", Change: true, Ask: "Remove the rejected messages of this instance?",
		Would: "remove these messages", Preview: fixed(maintenancePath + "/rejected"), PreviewRows: "messages", PreviewColumns: rejectedColumns,
		Request: func(*verb.Input) client.Request { return request.Delete(maintenancePath+"/rejected", nil) },
		Columns: "MESSAGES:messages",
	},
}
