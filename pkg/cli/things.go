package cli

import (
	"fmt"
	"net/url"
)

// theQueue is the first argument.
func theQueue(in *input) []thing { return []thing{queueNamed(in.args[0])} }

// theGroup is a group and its queue, the first two arguments.
func theGroup(in *input) []thing {
	return []thing{queueNamed(in.args[1]), groupNamed(in.args[0], in.args[1])}
}

// thePartition is a queue and its partition, the first two arguments.
func thePartition(in *input) []thing {
	return []thing{queueNamed(in.args[0]), {
		what: fmt.Sprintf("the partition %q of the queue %q", in.args[1], in.args[0]), rows: "partitions", member: "name", name: in.args[1],
		request: get("/api/v1/resources/queues/"+in.arg(0)+"/partitions", url.Values{"from": {in.args[1]}, "limit": {"1"}, "order": {"name"}}),
	}}
}

// theFlags are what --queue and --group name.
func theFlags(in *input) (all []thing) {
	queueName := in.flag("queue")
	if queueName != "" {
		all = append(all, queueNamed(queueName))
	}
	if group := in.flag("group"); group != "" {
		all = append(all, groupNamed(group, queueName))
	}
	return all
}

// theMessage is a partition and a transaction id, the first two arguments.
func theMessage(in *input) []thing {
	return []thing{{what: fmt.Sprintf("the message %q", in.args[1]), request: get(messagePath(in), nil)}}
}

// theStream is the id of a query, the first argument.
func theStream(in *input) []thing {
	return []thing{{
		what: fmt.Sprintf("the query %q", in.args[0]), request: get("/api/v1/streams", url.Values{"limit": {"1000"}}), rows: "streams", member: "id", name: in.args[0],
	}}
}
