package noun

import (
	"net/url"

	"github.com/spf13/pflag"

	"github.com/belfry-mq/belfry/pkg/cli/request"
	"github.com/belfry-mq/belfry/pkg/cli/session"
	"github.com/belfry-mq/belfry/pkg/cli/verb"
	"github.com/belfry-mq/belfry/pkg/client"
)

func groupPath(in *verb.Input) string {
	return "/api/v1/consumer-groups/" + in.Arg(0) + "/queues/" + in.Arg(1)
}

// groupVerbs are the commands of the noun group.
var groupVerbs = []*verb.Verb{
	{
		Use: "list", Short: "List the consumer groups of all queues, with their lag",
		Flags: func(f *pflag.FlagSet) {
			f.Int("limit", 1000, "how many")
			f.String("name", "", "only groups whose names have this part")
			f.String("queue", "", "only groups of queues whose names have this part")
			f.String("sort", "name", "name, backlog, oldest, failures, deadLetters, partitions or consumed")
		},
		Request: func(in *verb.Input) client.Request {
			query := fresh(in.Query("limit", "name", "queue", "sort"))
			query.Set("served", "true")
			return request.Get("/api/v1/groups", query)
		},
		Rows: "groups",
		Columns: `GROUP:name QUEUE:queueName LAG:lag LAG-SECONDS:oldestSeconds PARTITIONS-WITH-LAG:partitionsWithLag IN-DELIVERY:leasedMessages
			DEAD:deadLetters PAUSED:paused LAST-CONSUMED:lastConsumedAt:age DELIVERED-PER-SECOND:served.deliveredPerSecond STARTS:subscriptionMode:wide AGE:createdAt:age:wide`,
	},
	{
		Use: "get GROUP", One: true, Short: "Show the partitions of a consumer group", Complete: []session.Completion{session.Groups}, Flags: limitFlag,
		Request: func(in *verb.Input) client.Request {
			return request.Get("/api/v1/consumer-groups/"+in.Arg(0), in.Query("limit"))
		},
		Rows: "*queue.partitions",
		Columns: `QUEUE:queue PARTITION:partition LAG:offsetLag LAG-SECONDS:timeLagSeconds LEASED:leaseActive
			CONSUMED:totalConsumed LAST-CONSUMED:lastConsumedAt:age LEASE-ID:workerId:wide`,
	},
	{
		Use: "lag", Short: "List the partitions in which consumer groups are late", Flags: lagFlags, Request: lagRequest, Columns: lagColumns,
	},
	{
		Use: "seek GROUP QUEUE", Short: "Move a consumer group to another position in a queue", Complete: []session.Completion{session.Groups, session.Queues}, Change: true,
		Ask: "Move the group {0} in the queue {1}?", Would: "move the group {0} in the queue {1}", Named: theGroup,
		Long: `Move a consumer group to another position in a queue, or in one of its partitions. The group receives every message
after the position, even if it received the message before. It does not receive messages before the position.`,
		Example: `  belfry group seek billing orders --to 15m
  belfry group seek billing orders --partition customer-7 --to-end`,
		Flags: func(f *pflag.FlagSet) {
			f.String("to", "", "messages since this time, RFC 3339 or a time before now such as 15m or 2d")
			f.Bool("to-end", false, "only new messages")
			f.Bool("to-beginning", false, "all stored messages")
			f.String("partition", "", "only in this partition")
		},
		Preview:        seekPreview,
		PreviewColumns: previewSeek, Touches: seekEffects,
		Request: func(in *verb.Input) client.Request {
			query, path := seekQuery(in), groupPath(in)
			if partition := in.Flag("partition"); partition != "" {
				path += "/partitions/" + url.PathEscape(partition)
			}
			return request.Post(path+"/seek", query, nil)
		},
		Columns: seekColumns,
	},
	switched(verb.Verb{
		Use: "pause GROUP QUEUE", Short: "Stop deliveries from a queue to a group, until a resume", Complete: []session.Completion{session.Groups, session.Queues},
		Would: "pause the group {0} in the queue {1}", Named: theGroup,
	}, groupPath),
	switched(verb.Verb{
		Use: "resume GROUP QUEUE", Short: "Start deliveries to a paused group again", Complete: []session.Completion{session.Groups, session.Queues},
		Would: "resume the group {0} in the queue {1}", Named: theGroup,
	}, groupPath),
	{
		Use: "delete GROUP", Short: "Delete a consumer group, in one queue or in all", Complete: []session.Completion{session.Groups}, Change: true,
		Ask: "Delete the group {0} and its positions?", Would: "delete the group {0} with its positions",
		Named: func(in *verb.Input) []verb.Thing { return []verb.Thing{verb.GroupNamed(in.Args[0], in.Flag("queue"))} },
		Preview: func(in *verb.Input) client.Request {
			if in.Flag("queue") != "" {
				return client.Request{}
			}
			return request.Get("/api/v1/consumer-groups/"+in.Arg(0), nil)
		},
		PreviewRows:    "*queue.partitions",
		PreviewColumns: "QUEUE:queue PARTITION:partition LAG:offsetLag LEASED:leaseActive",
		Touches:        groupContents,
		Flags: func(f *pflag.FlagSet) {
			f.String("queue", "", "only in this queue")
			f.Bool("keep-start", false, "keep the start position for a later pop of the group")
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
		Columns: "GROUP:consumerGroup QUEUE:queueName PARTITIONS:deletedPartitions",
	},
}

const previewSeek = "GROUP:consumerGroup QUEUE:queueName AGAIN:messagesAgain SKIPPED:messagesSkipped LEASES-ENDED:leasesEnded"

const seekColumns = "GROUP:consumerGroup QUEUE:queueName PARTITION:partitionName MOVED:partitionsUpdated UPDATED:updated"

const lagColumns = `GROUP:consumer_group QUEUE:queue_name PARTITION:partition_name LAG:offset_lag LAG-SECONDS:time_lag_seconds
	OLDEST:oldest_unconsumed_at:age LAST-CONSUMED:last_consumed_at:age`

func lagFlags(f *pflag.FlagSet) {
	f.Int("min-seconds", 0, "only partitions with a lag of more than this number of seconds")
	limitFlag(f)
}

func lagRequest(in *verb.Input) client.Request {
	query := in.Query("limit")
	query.Set("minLagSeconds", in.Flag("min-seconds"))
	return request.Get("/api/v1/consumer-groups/lagging", query)
}

// seekQuery returns the query parameters for the position that the flags name.
func seekQuery(in *verb.Input) url.Values {
	query := in.Query("to-end=toEnd", "to-beginning=toBeginning")
	if at := in.Instant("to"); at != "" {
		query.Set("timestamp", at)
	}
	if len(query) != 1 && in.Err == nil {
		in.Err = session.UsageError("give exactly one of --to, --to-end and --to-beginning")
	}
	return query
}
