package cli

import (
	"github.com/spf13/pflag"

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
		columns: []column{
			{title: "QUEUES", path: "queues"}, {title: "PARTITIONS", path: "partitions"}, {title: "TOTAL", path: "messages.total"},
			{title: "PENDING", path: "messages.pending"}, {title: "PROCESSING", path: "messages.processing"}, {title: "DEAD", path: "messages.deadLetter"},
			{title: "MAX-LAG-SECONDS", path: "lag.time.max"}, {title: "IN/S", path: "throughput.ingestedPerSecond"}, {title: "OUT/S", path: "throughput.processedPerSecond"},
		},
	},
	{
		use: "lag", short: "List the partitions in which consumer groups are late", flags: lagFlags, request: lagRequest, columns: lagColumns,
	},
	{
		use: "waiting", short: "Show the requests that wait at this server, and what they wait for", request: fixed("/api/v1/status/dispatcher"),
		rows: "groups",
		columns: []column{
			{title: "QUEUE", path: "queue"}, {title: "PARTITION", path: "partition"}, {title: "NAMESPACE", path: "namespace"}, {title: "TASK", path: "task"},
			{title: "GROUP", path: "consumerGroup"}, {title: "WAITING", path: "waiting"}, {title: "OLDEST-SECONDS", path: "oldestSeconds"},
		},
	},
	{
		use: "history", short: "Show what each queue did over time", flags: spanFlags, request: spanRequest("/api/v1/analytics/queue-ops"), rows: "series",
		columns: []column{
			{title: "AT", path: "bucket"}, {title: "QUEUE", path: "queueName"}, {title: "PUSHED", path: "pushMessages"}, {title: "POPPED", path: "popMessages"},
			{title: "ACKED", path: "ackSuccess"}, {title: "FAILED", path: "ackFailed"}, {title: "AVG-LAG-MS", path: "avgLagMs"}, {title: "P99-MS", path: "p99Ms"},
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
		columns: []column{
			{title: "AT", path: "at"}, {title: "SUBJECT", path: "subject"}, {title: "ACTION", path: "action"}, {title: "QUEUE", path: "queue"},
			{title: "PARTITION", path: "partition", wide: true}, {title: "GROUP", path: "consumerGroup"}, {title: "RESULT", path: "result"},
			{title: "COUNTS", path: "counts"}, {title: "PARAMETERS", path: "parameters", wide: true}, {title: "REQUEST-ID", path: "requestId", wide: true},
		},
	},
	{
		use: "whoami", short: "Show what the token may do", request: fixed("/api/v1/whoami"),
		columns: []column{
			{title: "SUBJECT", path: "subject"}, {title: "ROLE", path: "role"}, {title: "EXPIRES", path: "expiresAt"}, {title: "GRANTS", path: "grants"},
			{title: "AUTHENTICATED", path: "authenticated", wide: true},
		},
	},
	{
		use: "sweeps", short: "Show when messages are swept next", request: fixed("/api/v1/status/sweeps"), rows: "sweeps",
		columns: []column{{title: "JOB", path: "job"}, {title: "RUNNING", path: "running"}, {title: "NEXT", path: "nextAt", show: age}},
	},
	{
		use: "replay QUEUE", short: "Deliver messages again to a group, from an instant on", complete: []completion{queues}, change: true,
		ask: "Deliver messages of {0} again?", example: `  belfry replay orders --group billing --to '15m ago'`,
		flags: func(f *pflag.FlagSet) {
			groupFlag(f)
			f.String("to", "", "the instant, RFC 3339 or a time before now such as 15m or 2d")
		},
		request: func(in *input) client.Request {
			at := in.instant("to")
			if at == "" && in.err == nil {
				in.err = usageError("--to is missing: from which instant on?")
			}
			group := in.text("group")
			if group == "" {
				group = "__QUEUE_MODE__"
			}
			seek := &input{session: in.session, args: []string{group, in.args[0]}}
			return post(groupPath(seek)+"/seek", map[string][]string{"timestamp": {at}}, nil)
		},
		columns: seekColumns,
	},
}

// listVerbs list namespaces and tasks.
var (
	namespaceVerbs = []*verb{{
		use: "list", short: "List the namespaces of queues", request: fixed("/api/v1/resources/namespaces"), rows: "namespaces",
		columns: []column{{title: "NAMESPACE", path: "namespace"}, {title: "QUEUES", path: "queues"}, {title: "PARTITIONS", path: "partitions"},
			{title: "TOTAL", path: "messages.total"}, {title: "PENDING", path: "messages.pending"}},
	}}
	taskVerbs = []*verb{{
		use: "list", short: "List the tasks of queues", request: fixed("/api/v1/resources/tasks"), rows: "tasks",
		columns: []column{{title: "TASK", path: "task"}, {title: "QUEUES", path: "queues"}, {title: "PARTITIONS", path: "partitions"},
			{title: "TOTAL", path: "messages.total"}, {title: "PENDING", path: "messages.pending"}},
	}}
)

// switchVerb turns a switch for maintenance.
func switchVerb(use, short, path string, on bool, ask string) *verb {
	return &verb{
		use: use, short: short, change: true, ask: ask,
		request: func(*input) client.Request { return post(path, nil, map[string]any{"enabled": on}) },
		columns: []column{{title: "MESSAGE", path: "message"}},
	}
}

const maintenancePath = "/api/v1/system/maintenance"

// maintenanceVerbs show and turn the switches for maintenance.
var maintenanceVerbs = []*verb{
	{
		use: "show", short: "Show whether maintenance is on, and what the spools hold", request: fixed(maintenancePath),
		columns: []column{
			{title: "PUSH-MAINTENANCE", path: "maintenanceMode"}, {title: "POP-MAINTENANCE", path: "popMaintenanceMode"}, {title: "BUFFERED", path: "bufferedMessages"},
			{title: "REJECTED", path: "bufferStats.failedCount"}, {title: "HEALTHY", path: "bufferHealthy"},
		},
	},
	switchVerb("push-on", "Keep pushes on the disks of the instances", maintenancePath, true, "Begin push maintenance on all instances?"),
	switchVerb("push-off", "Store pushes again, and what the disks hold", maintenancePath, false, ""),
	switchVerb("pop-on", "Answer pops without messages", maintenancePath+"/pop", true, "Begin pop maintenance on all instances?"),
	switchVerb("pop-off", "Deliver messages again", maintenancePath+"/pop", false, ""),
	{
		use: "rejected", short: "List the messages of a spool that the database refused", request: fixed(maintenancePath + "/rejected"), rows: "messages",
		columns: []column{
			{title: "QUEUE", path: "queue"}, {title: "PARTITION", path: "partition"}, {title: "TRANSACTION-ID", path: "transactionId"},
			{title: "REJECTED", path: "rejectedAt", show: age}, {title: "REASON", path: "reason"}, {title: "DATA", path: "data", wide: true},
		},
	},
	{
		use: "retry", short: "Put the rejected messages back into the spool", change: true,
		request: func(*input) client.Request { return post(maintenancePath+"/rejected/retry", nil, nil) },
		columns: []column{{title: "MESSAGES", path: "messages"}},
	},
	{
		use: "discard", short: "Remove the rejected messages", change: true, ask: "Remove the rejected messages of this instance?",
		request: func(*input) client.Request { return remove(maintenancePath+"/rejected", nil) },
		columns: []column{{title: "MESSAGES", path: "messages"}},
	},
}
