package noun

import (
	"github.com/spf13/pflag"

	"github.com/belfry-mq/belfry/pkg/cli/request"
	"github.com/belfry-mq/belfry/pkg/cli/session"
	"github.com/belfry-mq/belfry/pkg/cli/verb"
	"github.com/belfry-mq/belfry/pkg/client"
	"github.com/belfry-mq/belfry/pkg/client/api"
)

// blockedVerbs are the commands of the noun group for blocked partitions.
var blockedVerbs = []*verb.Verb{
	{
		Use: "blocked GROUP QUEUE", Short: "List the partitions that are blocked for a consumer group", Flags: limitFlag,
		Complete: []session.Completion{session.Groups, session.Queues},
		Request: func(in *verb.Input) client.Request {
			return request.Get(groupPath(in)+"/blocked", in.Query("limit"))
		},
		Rows: "partitions",
		Columns: `PARTITION:partitionName TRANSACTION-ID:transactionId FAILURES:failures DELIVERIES:deliveries WAITING:waiting BLOCKED:blockedAt:age
			ERROR:error MESSAGE-ID:messageId:wide`,
	},
	{
		Use: "unblock GROUP QUEUE PARTITION", Short: "Decide about the message at which a partition is blocked", Change: true,
		Complete: []session.Completion{session.Groups, session.Queues},
		Would:    "unblock the partition {2} for the group {0}", Named: theGroup,
		Long: `Decide about the message at which a partition is blocked for a consumer group. Then the partition goes on. With --action
retry the message is delivered at once, and its failures count from 0. With deadLetter it becomes a dead letter with its last
error. With skip it counts as done.`,
		Example: "  belfry group unblock billing orders customer-7 --action retry",
		Flags:   func(f *pflag.FlagSet) { f.String("action", "", "retry, deadLetter or skip") },
		Request: func(in *verb.Input) client.Request {
			action := in.Flag("action")
			switch action {
			case "retry", "deadLetter", "skip":
			default:
				if in.Err == nil {
					in.Err = session.UsageError("give --action retry, deadLetter or skip")
				}
			}
			return request.Post(groupPath(in)+"/partitions/"+in.Arg(2)+"/unblock", nil, api.Unblock{Action: action})
		},
		Columns: "GROUP:consumerGroup QUEUE:queueName PARTITION:partitionName ACTION:action TRANSACTION-ID:transactionId",
	},
}
