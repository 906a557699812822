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

func groupPath(in *verb.Input) string {
	return "/api/v1/consumer-groups/" + in.Arg(0) + "/queues/" + in.Arg(1)
}

// groupVerbs are the verbs of consumer groups.
var groupVerbs = []*verb.Verb{
	{
		Use: "list", Short: "List the consumer groups of all queues, with their lag",
		Request: func(*verb.Input) client.Request { return request.Get("/api/v1/consumer-groups", nil) },
		Columns: []output.Column{
			{Title: "GROUP", Path: "name"}, {Title: "QUEUE", Path: "queueName"}, {Title: "LAG", Path: "totalLag"}, {Title: "LAG-SECONDS", Path: "maxTimeLag"},
			{Title: "PARTITIONS-WITH-LAG", Path: "partitionsWithLag"}, {Title: "PAUSED", Path: "paused"}, {Title: "STATE", Path: "state"},
			{Title: "STARTS", Path: "subscriptionMode", Wide: true}, {Title: "AGE", Path: "subscriptionCreatedAt", Show: output.Age},
		},
	},
	{
		Use: "get GROUP", One: true, Short: "Show the partitions of a consumer group", Complete: []session.Completion{session.Groups}, Flags: limitFlag,
		Request: func(in *verb.Input) client.Request {
			return request.Get("/api/v1/consumer-groups/"+in.Arg(0), in.Query("limit", "limit"))
		},
		Rows: "*queue.partitions",
		Columns: []output.Column{
			{Title: "QUEUE", Path: "queue"}, {Title: "PARTITION", Path: "partition"}, {Title: "LAG", Path: "offsetLag"}, {Title: "LAG-SECONDS", Path: "timeLagSeconds"},
			{Title: "LEASED", Path: "leaseActive"}, {Title: "CONSUMED", Path: "totalConsumed"}, {Title: "LAST-CONSUMED", Path: "lastConsumedAt", Show: output.Age},
			{Title: "LEASE-ID", Path: "workerId", Wide: true},
		},
	},
	{
		Use: "lag", Short: "List the partitions in which consumer groups are late", Flags: lagFlags, Request: lagRequest, Columns: lagColumns,
	},
	{
		Use: "seek GROUP QUEUE", Short: "Move a consumer group to another place in a queue", Complete: []session.Completion{session.Groups, session.Queues}, Change: true,
		Ask: "Move the group {0} in the queue {1}?", Would: "move the group {0} in the queue {1}", Named: theGroup,
		Long: `Move a consumer group to another place in a queue, or in one of its partitions. Messages after the place are
delivered, also if they were before. Messages before it are not.`,
		Example: `  belfry group seek billing orders --to 15m
  belfry group seek billing orders --partition customer-7 --to-end`,
		Flags: func(f *pflag.FlagSet) {
			f.String("to", "", "messages from this instant on, RFC 3339 or a time before now such as 15m or 2d")
			f.Bool("to-end", false, "only new messages")
			f.Bool("to-beginning", false, "all stored messages")
			f.String("partition", "", "only in this partition")
		},
		Preview: func(in *verb.Input) client.Request {
			query := seekQuery(in)
			if partition := in.Flag("partition"); partition != "" {
				query.Set("partition", partition)
			}
			return request.Get(groupPath(in)+"/seek", query)
		},
		PreviewColumns: previewColumns.seek,
		Request: func(in *verb.Input) client.Request {
			query, path := seekQuery(in), groupPath(in)
			if partition := in.Flag("partition"); partition != "" {
				path += "/partitions/" + url.PathEscape(partition)
			}
			return request.Post(path+"/seek", query, nil)
		},
		Columns: seekColumns,
	},
	{
		Use: "pause GROUP QUEUE", Short: "Deliver nothing of a queue to a group until it is resumed", Complete: []session.Completion{session.Groups, session.Queues}, Change: true,
		Would: "pause the group {0} in the queue {1}", Named: theGroup,
		Request: func(in *verb.Input) client.Request { return request.Post(groupPath(in)+"/pause", nil, nil) },
		Columns: pausedColumns,
	},
	{
		Use: "resume GROUP QUEUE", Short: "Deliver to a paused group again", Complete: []session.Completion{session.Groups, session.Queues}, Change: true,
		Would: "resume the group {0} in the queue {1}", Named: theGroup,
		Request: func(in *verb.Input) client.Request { return request.Post(groupPath(in)+"/resume", nil, nil) },
		Columns: pausedColumns,
	},
	{
		Use: "delete GROUP", Short: "Delete a consumer group, in one queue or in all", Complete: []session.Completion{session.Groups}, Change: true,
		Ask: "Delete the group {0} and its places?", Would: "delete the group {0} with its places",
		Named: func(in *verb.Input) []verb.Thing { return []verb.Thing{verb.GroupNamed(in.Args[0], in.Flag("queue"))} },
		Preview: func(in *verb.Input) client.Request {
			if in.Flag("queue") != "" {
				return client.Request{}
			}
			return request.Get("/api/v1/consumer-groups/"+in.Arg(0), nil)
		},
		PreviewRows:    "*queue.partitions",
		PreviewColumns: []output.Column{{Title: "QUEUE", Path: "queue"}, {Title: "PARTITION", Path: "partition"}, {Title: "LAG", Path: "offsetLag"}, {Title: "LEASED", Path: "leaseActive"}},
		Flags: func(f *pflag.FlagSet) {
			f.String("queue", "", "only in this queue")
			f.Bool("keep-start", false, "keep where the group starts if it pops again")
		},
		Request: func(in *verb.Input) client.Request {
			path, query := "/api/v1/consumer-groups/"+in.Arg(0), url.Values{}
			if queueName := in.Flag("queue"); queueName != "" {
				path += "/queues/" + url.PathEscape(queueName)
			}
			if in.Flag("keep-start") == "true" {
				query.Set("deleteMetadata", "false")
			}
			return request.Delete(path, query)
		},
		Columns: []output.Column{
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

func lagRequest(in *verb.Input) client.Request {
	query := in.Query("limit", "limit")
	query.Set("minLagSeconds", in.Flag("min-seconds"))
	return request.Get("/api/v1/consumer-groups/lagging", query)
}

// seekQuery returns the place that the flags name.
func seekQuery(in *verb.Input) url.Values {
	query := in.Query("to-end", "toEnd", "to-beginning", "toBeginning")
	if at := in.Instant("to"); at != "" {
		query.Set("timestamp", at)
	}
	if len(query) != 1 && in.Err == nil {
		in.Err = session.UsageError("name one of --to, --to-end and --to-beginning")
	}
	return query
}
