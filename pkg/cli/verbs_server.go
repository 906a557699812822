package cli

import (
	"cmp"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/belfry-mq/belfry/pkg/cli/output"
	"github.com/belfry-mq/belfry/pkg/client"
)

func spanFlags(f *pflag.FlagSet) {
	f.String("from", "", "since this instant, RFC 3339 or a time before now such as 15m or 2d")
	f.String("to", "", "until this instant")
	f.String("queue", "", "only this queue")
	f.String("group", "", "only this consumer group")
	f.String("namespace", "", "only queues of this namespace")
	f.String("task", "", "only queues of this task")
}

func spanRequest(path string) func(in *input) client.Request {
	return func(in *input) client.Request {
		query := in.query("queue", "queue", "group", "consumerGroup", "namespace", "namespace", "task", "task")
		for _, name := range []string{"from", "to"} {
			if at := in.instant(name); at != "" {
				query.Set(name, at)
			}
		}
		return get(path, query)
	}
}

func fixed(path string) func(in *input) client.Request {
	return func(*input) client.Request { return get(path, nil) }
}

// serverVerbs are the verbs that need no noun.
var serverVerbs = []*verb{
	{
		use: "status", short: "Show counts of all queues and the lag", request: fixed("/api/v1/resources/overview"),
		columns: []output.Column{
			{Title: "QUEUES", Path: "queues"}, {Title: "PARTITIONS", Path: "partitions"}, {Title: "TOTAL", Path: "messages.total"},
			{Title: "PENDING", Path: "messages.pending"}, {Title: "PROCESSING", Path: "messages.processing"}, {Title: "DEAD", Path: "messages.deadLetter"},
			{Title: "MAX-LAG-SECONDS", Path: "lag.time.max"}, {Title: "IN/S", Path: "throughput.ingestedPerSecond"}, {Title: "OUT/S", Path: "throughput.processedPerSecond"},
		},
	},
	{
		use: "lag", short: "List the partitions in which consumer groups are late", flags: lagFlags, request: lagRequest, columns: lagColumns,
	},
	{
		use: "waiting", short: "Show the requests that wait at this server, and what they wait for", request: fixed("/api/v1/status/dispatcher"),
		rows: "groups",
		columns: []output.Column{
			{Title: "QUEUE", Path: "queue"}, {Title: "PARTITION", Path: "partition"}, {Title: "NAMESPACE", Path: "namespace"}, {Title: "TASK", Path: "task"},
			{Title: "GROUP", Path: "consumerGroup"}, {Title: "WAITING", Path: "waiting"}, {Title: "OLDEST-SECONDS", Path: "oldestSeconds"},
		},
	},
	{
		use: "history", short: "Show what each queue did over time", flags: spanFlags, request: spanRequest("/api/v1/analytics/queue-ops"), rows: "series",
		columns: []output.Column{
			{Title: "AT", Path: "bucket"}, {Title: "QUEUE", Path: "queueName"}, {Title: "PUSHED", Path: "pushMessages"}, {Title: "POPPED", Path: "popMessages"},
			{Title: "ACKED", Path: "ackSuccess"}, {Title: "FAILED", Path: "ackFailed"}, {Title: "AVG-LAG-MS", Path: "avgLagMs"}, {Title: "P99-MS", Path: "p99Ms"},
		},
	},
	{
		use: "audit", short: "List the changes that operators made, the newest first",
		flags: func(f *pflag.FlagSet) {
			limitFlag(f)
			f.String("action", "", "only this action, such as queue.delete")
			f.String("queue", "", "only of this queue")
			f.String("group", "", "only of this consumer group")
			f.String("subject", "", "only by this principal")
			f.String("from", "", "since this instant, RFC 3339 or a time before now such as 15m or 2d")
			f.String("to", "", "until this instant")
		},
		request: func(in *input) client.Request {
			query := in.query("limit", "limit", "action", "action", "queue", "queue", "group", "consumerGroup", "subject", "subject")
			for _, name := range []string{"from", "to"} {
				if at := in.instant(name); at != "" {
					query.Set(name, at)
				}
			}
			return get("/api/v1/audit", query)
		},
		rows: "entries",
		columns: []output.Column{
			{Title: "AT", Path: "at"}, {Title: "SUBJECT", Path: "subject"}, {Title: "ACTION", Path: "action"}, {Title: "QUEUE", Path: "queue"},
			{Title: "PARTITION", Path: "partition", Wide: true}, {Title: "GROUP", Path: "consumerGroup"}, {Title: "RESULT", Path: "result"},
			{Title: "COUNTS", Path: "counts"}, {Title: "PARAMETERS", Path: "parameters", Wide: true}, {Title: "REQUEST-ID", Path: "requestId", Wide: true},
		},
	},
	{
		use: "whoami", short: "Show what the token may do", request: fixed("/api/v1/whoami"),
		columns: []output.Column{
			{Title: "SUBJECT", Path: "subject"}, {Title: "ROLE", Path: "role"}, {Title: "EXPIRES", Path: "expiresAt"}, {Title: "GRANTS", Path: "grants"},
			{Title: "AUTHENTICATED", Path: "authenticated", Wide: true},
		},
	},
	{
		use: "sweeps", short: "Show when messages are swept next", request: fixed("/api/v1/status/sweeps"), rows: "sweeps",
		columns: []output.Column{{Title: "JOB", Path: "job"}, {Title: "RUNNING", Path: "running"}, {Title: "NEXT", Path: "nextAt", Show: output.Age}},
	},
	{
		use: "replay QUEUE", short: "Move a group to an instant, so that it receives the messages since then again", complete: []completion{queues}, change: true,
		ask:   "Move the group in {0}? It receives the messages since that instant again, and none from before.",
		would: "move the group in the queue {0}", named: func(in *input) []thing { return theGroup(replayed(in)) },
		preview: func(in *input) client.Request {
			return get(groupPath(replayed(in))+"/seek", map[string][]string{"timestamp": {in.instant("to")}})
		},
		previewColumns: previewColumns.seek,
		long: `Move a consumer group to an instant: it receives the messages since then, also if it had them before. It does not receive
messages from before, also if it never had them. "belfry lag" shows how late a group is. "belfry group seek" moves to other places.`,
		example: `  belfry replay orders --group billing --to '15m ago'`,
		flags: func(f *pflag.FlagSet) {
			groupFlag(f)
			f.String("to", "", "the instant, RFC 3339 or a time before now such as 15m or 2d")
		},
		request: func(in *input) client.Request {
			at := in.instant("to")
			if at == "" && in.err == nil {
				in.err = usageError("--to is missing: from which instant on?")
			}
			if when, err := time.Parse(time.RFC3339Nano, at); err == nil && when.After(time.Now()) && in.err == nil {
				in.err = usageError("--to is in the future: the group would miss messages; use \"belfry group seek GROUP QUEUE --to-end\" to skip all that is stored")
			}
			return post(groupPath(replayed(in))+"/seek", map[string][]string{"timestamp": {at}}, nil)
		},
		columns: seekColumns,
	},
}

// replayed returns the group and the queue of a replay as arguments.
func replayed(in *input) *input {
	return &input{session: in.session, args: []string{cmp.Or(in.flag("group"), "__QUEUE_MODE__"), in.args[0]}}
}

// listVerbs list namespaces and tasks.
var (
	namespaceVerbs = []*verb{{
		use: "list", short: "List the namespaces of queues", request: fixed("/api/v1/resources/namespaces"), rows: "namespaces",
		columns: []output.Column{{Title: "NAMESPACE", Path: "namespace"}, {Title: "QUEUES", Path: "queues"}, {Title: "PARTITIONS", Path: "partitions"},
			{Title: "TOTAL", Path: "messages.total"}, {Title: "PENDING", Path: "messages.pending"}},
	}}
	taskVerbs = []*verb{{
		use: "list", short: "List the tasks of queues", request: fixed("/api/v1/resources/tasks"), rows: "tasks",
		columns: []output.Column{{Title: "TASK", Path: "task"}, {Title: "QUEUES", Path: "queues"}, {Title: "PARTITIONS", Path: "partitions"},
			{Title: "TOTAL", Path: "messages.total"}, {Title: "PENDING", Path: "messages.pending"}},
	}}
)

// switchVerb turns a switch for maintenance.
func switchVerb(use, short, path string, on bool, ask string) *verb {
	return &verb{
		use: use, short: short, change: true, ask: ask, would: strings.ToLower(short[:1]) + short[1:],
		request: func(*input) client.Request { return post(path, nil, map[string]any{"enabled": on}) },
		columns: []output.Column{{Title: "MESSAGE", Path: "message"}},
	}
}

var rejectedColumns = []output.Column{
	{Title: "QUEUE", Path: "queue"}, {Title: "PARTITION", Path: "partition"}, {Title: "TRANSACTION-ID", Path: "transactionId"},
	{Title: "REJECTED", Path: "rejectedAt", Show: output.Age}, {Title: "REASON", Path: "reason"}, {Title: "DATA", Path: "data", Wide: true},
}

const maintenancePath = "/api/v1/system/maintenance"

// maintenanceVerbs show and turn the switches for maintenance.
var maintenanceVerbs = []*verb{
	{
		use: "show", short: "Show whether maintenance is on, and what the spools hold", request: fixed(maintenancePath),
		columns: []output.Column{
			{Title: "PUSH-MAINTENANCE", Path: "maintenanceMode"}, {Title: "POP-MAINTENANCE", Path: "popMaintenanceMode"}, {Title: "BUFFERED", Path: "bufferedMessages"},
			{Title: "REJECTED", Path: "bufferStats.failedCount"}, {Title: "HEALTHY", Path: "bufferHealthy"},
		},
	},
	switchVerb("push-on", "Keep pushes on the disks of the instances", maintenancePath, true, "Begin push maintenance on all instances?"),
	switchVerb("push-off", "Store pushes again, and what the disks hold", maintenancePath, false, ""),
	switchVerb("pop-on", "Answer pops without messages", maintenancePath+"/pop", true, "Begin pop maintenance on all instances?"),
	switchVerb("pop-off", "Deliver messages again", maintenancePath+"/pop", false, ""),
	{
		use: "rejected", short: "List the messages of a spool that the database refused", request: fixed(maintenancePath + "/rejected"), rows: "messages",
		columns: rejectedColumns,
	},
	{
		use: "retry", short: "Put the rejected messages back into the spool", change: true, would: "put these messages back into the spool",
		preview: fixed(maintenancePath + "/rejected"), previewRows: "messages", previewColumns: rejectedColumns,
		request: func(*input) client.Request { return post(maintenancePath+"/rejected/retry", nil, nil) },
		columns: []output.Column{{Title: "MESSAGES", Path: "messages"}},
	},
	{
		use: "discard", short: "Remove the rejected messages", change: true, ask: "Remove the rejected messages of this instance?",
		would: "remove these messages", preview: fixed(maintenancePath + "/rejected"), previewRows: "messages", previewColumns: rejectedColumns,
		request: func(*input) client.Request { return remove(maintenancePath+"/rejected", nil) },
		columns: []output.Column{{Title: "MESSAGES", Path: "messages"}},
	},
}
