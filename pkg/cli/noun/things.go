package noun

import (
	"fmt"
	"net/url"

	"github.com/belfry-mq/belfry/pkg/cli/request"
	"github.com/belfry-mq/belfry/pkg/cli/verb"
)

// theQueue returns the queue in the first argument.
func theQueue(in *verb.Input) []verb.Thing { return []verb.Thing{verb.QueueNamed(in.Args[0])} }

// theGroup returns a group and its queue: the first two arguments.
func theGroup(in *verb.Input) []verb.Thing {
	return []verb.Thing{verb.QueueNamed(in.Args[1]), verb.GroupNamed(in.Args[0], in.Args[1])}
}

// thePartition returns a queue and its partition: the first two arguments.
func thePartition(in *verb.Input) []verb.Thing {
	return []verb.Thing{verb.QueueNamed(in.Args[0]), {
		What: fmt.Sprintf("the partition %q of the queue %q", in.Args[1], in.Args[0]), Rows: "partitions", Member: "name", Name: in.Args[1],
		Request: request.Get(queuePath(in)+"/partitions", url.Values{"from": {in.Args[1]}, "limit": {"1"}, "order": {"name"}}),
	}}
}

// theFlags returns the queue of --queue and the group of --group.
func theFlags(in *verb.Input) []verb.Thing { return queueAndGroup(in, in.Flag("queue")) }

// queueAndGroup returns the queue, if queueName is not "", and the group of --group.
func queueAndGroup(in *verb.Input, queueName string) (all []verb.Thing) {
	if queueName != "" {
		all = append(all, verb.QueueNamed(queueName))
	}
	if group := in.Flag("group"); group != "" {
		all = append(all, verb.GroupNamed(group, queueName))
	}
	return all
}

// theMessage returns the message with a partition id and a transaction id: the first two arguments.
func theMessage(in *verb.Input) []verb.Thing {
	return []verb.Thing{{What: fmt.Sprintf("the message %q", in.Args[1]), Request: request.Get(messagePath(in), nil)}}
}

// theStream returns the query of a stream whose id is the first argument.
func theStream(in *verb.Input) []verb.Thing {
	return []verb.Thing{{
		What: fmt.Sprintf("the query %q", in.Args[0]), Request: request.Get("/api/v1/streams", url.Values{"limit": {"1000"}}), Rows: "streams", Member: "id", Name: in.Args[0],
	}}
}
