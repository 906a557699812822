package cli

import (
	"net/url"

	"github.com/spf13/pflag"

	"github.com/belfry-mq/belfry/pkg/cli/output"
	"github.com/belfry-mq/belfry/pkg/client"
)

func groupPath(in *input) string {
	return "/api/v1/consumer-groups/" + in.arg(0) + "/queues/" + in.arg(1)
}

// groupVerbs are the verbs of consumer groups.
var groupVerbs = []*verb{
	{
		use: "list", short: "List the consumer groups of all queues, with their lag",
		request: func(*input) client.Request { return get("/api/v1/consumer-groups", nil) },
		columns: []output.Column{
			{Title: "GROUP", Path: "name"}, {Title: "QUEUE", Path: "queueName"}, {Title: "LAG", Path: "totalLag"}, {Title: "LAG-SECONDS", Path: "maxTimeLag"},
			{Title: "PARTITIONS-WITH-LAG", Path: "partitionsWithLag"}, {Title: "PAUSED", Path: "paused"}, {Title: "STATE", Path: "state"},
			{Title: "STARTS", Path: "subscriptionMode", Wide: true}, {Title: "AGE", Path: "subscriptionCreatedAt", Show: output.Age},
		},
	},
	{
		use: "get GROUP", one: true, short: "Show the partitions of a consumer group", complete: []completion{groups}, flags: limitFlag,
		request: func(in *input) client.Request {
			return get("/api/v1/consumer-groups/"+in.arg(0), in.query("limit", "limit"))
		},
		rows: "*queue.partitions",
		columns: []output.Column{
			{Title: "QUEUE", Path: "queue"}, {Title: "PARTITION", Path: "partition"}, {Title: "LAG", Path: "offsetLag"}, {Title: "LAG-SECONDS", Path: "timeLagSeconds"},
			{Title: "LEASED", Path: "leaseActive"}, {Title: "CONSUMED", Path: "totalConsumed"}, {Title: "LAST-CONSUMED", Path: "lastConsumedAt", Show: output.Age},
			{Title: "LEASE-ID", Path: "workerId", Wide: true},
		},
	},
	{
		use: "lag", short: "List the partitions in which consumer groups are late", flags: lagFlags, request: lagRequest, columns: lagColumns,
	},
	{
		use: "seek GROUP QUEUE", short: "Move a consumer group to another place in a queue", complete: []completion{groups, queues}, change: true,
		ask: "Move the group {0} in the queue {1}?", would: "move the group {0} in the queue {1}", named: theGroup,
		long: `Move a consumer group to another place in a queue, or in one of its partitions. Messages after the place are
delivered, also if they were before. Messages before it are not.`,
		example: `  belfry group seek billing orders --to 15m
  belfry group seek billing orders --partition customer-7 --to-end`,
		flags: func(f *pflag.FlagSet) {
			f.String("to", "", "messages from this instant on, RFC 3339 or a time before now such as 15m or 2d")
			f.Bool("to-end", false, "only new messages")
			f.Bool("to-beginning", false, "all stored messages")
			f.String("partition", "", "only in this partition")
		},
		preview: func(in *input) client.Request {
			query := seekQuery(in)
			if partition := in.flag("partition"); partition != "" {
				query.Set("partition", partition)
			}
			return get(groupPath(in)+"/seek", query)
		},
		previewColumns: previewColumns.seek,
		request: func(in *input) client.Request {
			query, path := seekQuery(in), groupPath(in)
			if partition := in.flag("partition"); partition != "" {
				path += "/partitions/" + url.PathEscape(partition)
			}
			return post(path+"/seek", query, nil)
		},
		columns: seekColumns,
	},
	{
		use: "pause GROUP QUEUE", short: "Deliver nothing of a queue to a group until it is resumed", complete: []completion{groups, queues}, change: true,
		would: "pause the group {0} in the queue {1}", named: theGroup,
		request: func(in *input) client.Request { return post(groupPath(in)+"/pause", nil, nil) },
		columns: pausedColumns,
	},
	{
		use: "resume GROUP QUEUE", short: "Deliver to a paused group again", complete: []completion{groups, queues}, change: true,
		would: "resume the group {0} in the queue {1}", named: theGroup,
		request: func(in *input) client.Request { return post(groupPath(in)+"/resume", nil, nil) },
		columns: pausedColumns,
	},
	{
		use: "delete GROUP", short: "Delete a consumer group, in one queue or in all", complete: []completion{groups}, change: true,
		ask: "Delete the group {0} and its places?", would: "delete the group {0} with its places",
		named: func(in *input) []thing { return []thing{groupNamed(in.args[0], in.flag("queue"))} },
		preview: func(in *input) client.Request {
			if in.flag("queue") != "" {
				return client.Request{}
			}
			return get("/api/v1/consumer-groups/"+in.arg(0), nil)
		},
		previewRows:    "*queue.partitions",
		previewColumns: []output.Column{{Title: "QUEUE", Path: "queue"}, {Title: "PARTITION", Path: "partition"}, {Title: "LAG", Path: "offsetLag"}, {Title: "LEASED", Path: "leaseActive"}},
		flags: func(f *pflag.FlagSet) {
			f.String("queue", "", "only in this queue")
			f.Bool("keep-start", false, "keep where the group starts if it pops again")
		},
		request: func(in *input) client.Request {
			path, query := "/api/v1/consumer-groups/"+in.arg(0), url.Values{}
			if queueName := in.flag("queue"); queueName != "" {
				path += "/queues/" + url.PathEscape(queueName)
			}
			if in.flag("keep-start") == "true" {
				query.Set("deleteMetadata", "false")
			}
			return remove(path, query)
		},
		columns: []output.Column{
			{Title: "GROUP", Path: "consumerGroup"}, {Title: "QUEUE", Path: "queueName"}, {Title: "PARTITIONS", Path: "deletedPartitions"},
		},
	},
}

var seekColumns = []output.Column{
	{Title: "GROUP", Path: "consumerGroup"}, {Title: "QUEUE", Path: "queueName"}, {Title: "PARTITION", Path: "partitionName"},
	{Title: "MOVED", Path: "partitionsUpdated"}, {Title: "UPDATED", Path: "updated"},
}

var lagColumns = []output.Column{
	{Title: "GROUP", Path: "consumer_group"}, {Title: "QUEUE", Path: "queue_name"}, {Title: "PARTITION", Path: "partition_name"},
	{Title: "LAG", Path: "offset_lag"}, {Title: "LAG-SECONDS", Path: "time_lag_seconds"}, {Title: "OLDEST", Path: "oldest_unconsumed_at", Show: output.Age},
	{Title: "LAST-CONSUMED", Path: "last_consumed_at", Show: output.Age},
}

func lagFlags(f *pflag.FlagSet) {
	f.Int("min-seconds", 0, "only a lag of more seconds")
	limitFlag(f)
}

func lagRequest(in *input) client.Request {
	query := in.query("limit", "limit")
	query.Set("minLagSeconds", in.flag("min-seconds"))
	return get("/api/v1/consumer-groups/lagging", query)
}

// seekQuery returns the place that the flags name.
func seekQuery(in *input) url.Values {
	query := in.query("to-end", "toEnd", "to-beginning", "toBeginning")
	if at := in.instant("to"); at != "" {
		query.Set("timestamp", at)
	}
	if len(query) != 1 && in.err == nil {
		in.err = usageError("name one of --to, --to-end and --to-beginning")
	}
	return query
}
