package noun

import (
	"net/url"
	"strings"

	"github.com/spf13/pflag"

	"github.com/belfry-mq/belfry/pkg/cli/request"
	"github.com/belfry-mq/belfry/pkg/cli/session"
	"github.com/belfry-mq/belfry/pkg/cli/verb"
	"github.com/belfry-mq/belfry/pkg/client"
	"github.com/belfry-mq/belfry/pkg/client/api"
)

// messageColumns are the columns with message counts.
const messageColumns = "TOTAL:messages.total PENDING:messages.pending PROCESSING:messages.processing"

const pausedColumns = "QUEUE:queueName PARTITION:partitionName GROUP:consumerGroup PAUSED:paused CHANGED:changed"

func queuePath(in *verb.Input) string { return "/api/v1/resources/queues/" + in.Arg(0) }

func partitionPath(in *verb.Input) string { return queuePath(in) + "/partitions/" + in.Arg(1) }

// switched completes a verb that pauses or resumes an object. The request path is path plus the first word of Use.
func switched(v verb.Verb, path func(in *verb.Input) string) *verb.Verb {
	v.Change, v.Columns = true, pausedColumns
	word := strings.Fields(v.Use)[0]
	if word == "pause" {
		v.Flags = func(f *pflag.FlagSet) { f.String("reason", "", "the reason, which the pages and the API show") }
	}
	v.Request = func(in *verb.Input) client.Request {
		if reason := in.Flag("reason"); reason != "" {
			return request.Post(path(in)+"/"+word, nil, api.Reason{Reason: reason})
		}
		return request.Post(path(in)+"/"+word, nil, nil)
	}
	return &v
}

// fresh asks for totals of everything that was committed before the request.
func fresh(query url.Values) url.Values {
	query.Set("fresh", "true")
	return query
}

func limitFlag(f *pflag.FlagSet) { f.Int("limit", 100, "maximum number of rows") }

// tagVerb lists namespaces or tasks.
func tagVerb(many string) *verb.Verb {
	return &verb.Verb{
		Use: many, Short: "List the " + many + " of the queues, with the sums over their queues",
		Flags: func(f *pflag.FlagSet) {
			limitFlag(f)
			f.String("name", "", "only "+many+" whose names have this part")
			f.String("sort", "name", "name, backlog, pending, oldest, failures, deadLetters, partitions, stored or queues")
		},
		Request: func(in *verb.Input) client.Request {
			return request.Get("/api/v1/totals/"+many, fresh(in.Query("limit", "name", "sort")))
		},
		Rows: "tags",
		Columns: "NAME:name QUEUES:queues " + messageColumns + ` DEAD:deadLetters OLDEST-SECONDS:oldestSeconds PUSHED-PER-SECOND:pushedPerSecond
			DELIVERED-PER-SECOND:deliveredPerSecond FAILED-LAST-HOUR:failedLastHour`,
	}
}

// queueVerbs are the commands of the noun queue.
var queueVerbs = []*verb.Verb{
	{
		Use: "list", Short: "List the queues, with their messages",
		Flags: func(f *pflag.FlagSet) {
			limitFlag(f)
			f.String("name", "", "only queues whose names have this part")
			f.String("namespace", "", "only queues of this namespace")
			f.String("task", "", "only queues of this task")
			f.String("sort", "name", "name, backlog, pending, oldest, failures, deadLetters, partitions, stored or failed (in the last hour)")
		},
		Request: func(in *verb.Input) client.Request {
			return request.Get("/api/v1/queues", fresh(in.Query("limit", "name", "namespace", "task", "sort")))
		},
		Rows: "queues",
		Columns: "QUEUE:name NAMESPACE:namespace:wide TASK:task:wide PARTITIONS:partitions GROUPS:groups:wide " + messageColumns +
			" DEAD:deadLetters OLDEST-SECONDS:oldestSeconds FAILED-LAST-HOUR:failedLastHour:wide PAUSED:paused AGE:createdAt:age",
	},
	tagVerb("namespaces"),
	tagVerb("tasks"),
	{
		Use: "get QUEUE", Short: "Show a queue and its options", Complete: []session.Completion{session.Queues},
		Request: func(in *verb.Input) client.Request { return request.Get("/api/v1/status/queues/"+in.Arg(0), nil) },
		Rows:    "queue",
		Columns: "QUEUE:name NAMESPACE:namespace TASK:task PAUSED:paused AGE:createdAt:age OPTIONS:options:settings",
	},
	{
		Use: "delete QUEUE", Short: "Delete a queue with its messages, groups and dead letters", Complete: []session.Completion{session.Queues},
		Change: true, Ask: "Delete the queue {0} with all its messages?", Would: "delete the queue {0} with all its messages", Named: theQueue,
		Preview: func(in *verb.Input) client.Request {
			return request.Get(queuePath(in)+"/groups", url.Values{"limit": {"1"}, "fresh": {"true"}})
		},
		PreviewColumns: `QUEUE:queueName TOTAL:messages.total PENDING:messages.pending PROCESSING:messages.processing
			PARTITIONS:partitions DEAD-LETTERS:deadLetters`,
		Touches: queueContents,
		Request: func(in *verb.Input) client.Request { return request.Delete(queuePath(in), nil) },
		Columns: "QUEUE:queue DELETED:deleted EXISTED:existed",
	},
	switched(verb.Verb{
		Use: "pause QUEUE", Short: "Stop deliveries from a queue, until a resume", Complete: []session.Completion{session.Queues},
		Would: "pause the queue {0}", Named: theQueue,
	}, queuePath),
	switched(verb.Verb{
		Use: "resume QUEUE", Short: "Start deliveries from a paused queue again", Complete: []session.Completion{session.Queues},
		Would: "resume the queue {0}", Named: theQueue,
	}, queuePath),
}

const configuredColumns = "QUEUE:queue NAMESPACE:namespace TASK:task OPTIONS:options:settings"

// partitionVerbs are the commands of the noun partition.
var partitionVerbs = []*verb.Verb{
	{
		Use: "list QUEUE", Short: "List the partitions of a queue", Complete: []session.Completion{session.Queues}, Flags: limitFlag,
		Request: func(in *verb.Input) client.Request {
			return request.Get("/api/v1/status/queues/"+in.Arg(0), in.Query("limit"))
		},
		Rows:    "partitions",
		Columns: "PARTITION:name " + messageColumns + " DEAD:messages.deadLetter PAUSED:paused OLDEST:oldestMessage:age NEWEST:newestMessage:age ID:id:wide",
	},
	{
		Use: "search QUEUE NAME", Short: "Search the partitions of a queue by a part of their names", Complete: []session.Completion{session.Queues},
		Long: `Search the partitions of a queue by a part of their names, in any case. A search in a large queue ends after about a tenth
of a second. Continue with --cursor and the value of pagination.next, which --output json shows.`,
		Flags: func(f *pflag.FlagSet) {
			limitFlag(f)
			f.String("cursor", "", "continue a search: pagination.next of the answer before")
		},
		Request: func(in *verb.Input) client.Request {
			query := in.Query("limit", "cursor")
			query.Set("name", in.Args[1])
			return request.Get("/api/v1/resources/queues/"+in.Arg(0)+"/search", query)
		},
		Rows: "partitions", Columns: "PARTITION:name ID:id:wide",
	},
	{
		Use: "get QUEUE PARTITION", Short: "Show the state of a group in a partition", Complete: []session.Completion{session.Queues},
		Flags: func(f *pflag.FlagSet) { groupFlag(f) },
		Request: func(in *verb.Input) client.Request {
			query := in.Query("group=consumerGroup")
			query.Set("queue", in.Args[0])
			query.Set("partition", in.Args[1])
			return request.Get("/api/v1/explain", query)
		},
		Columns: "CODE:code LAG:lag NEXT-CHANGE:nextChangeAt:age SENTENCE:sentence",
	},
	switched(verb.Verb{
		Use: "pause QUEUE PARTITION", Short: "Stop deliveries from a partition, until a resume", Complete: []session.Completion{session.Queues},
		Would: "pause the partition {1} of {0}", Named: thePartition,
	}, partitionPath),
	switched(verb.Verb{
		Use: "resume QUEUE PARTITION", Short: "Start deliveries from a paused partition again", Complete: []session.Completion{session.Queues},
		Would: "resume the partition {1} of {0}", Named: thePartition,
	}, partitionPath),
}
