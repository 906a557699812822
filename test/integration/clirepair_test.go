package integration_test

import (
	"github.com/stretchr/testify/require"
)

// repairCommands finds dead letters by their errors, sends them again, redrives them by a job, and undoes a change.
func repairCommands(x *terminal) {
	for _, id := range []string{"a", "b", "c", "d"} {
		x.run("", "push", "mend", "1", "--partition", "lane", "--transaction-id", id)
		x.deadLetter("mend", "g")
	}
	letters := x.json("dlq", "list", "--queue", "mend")
	partition, _ := member(letters, "messages", 0, "partitionId").(string)
	require.NotEmpty(x.t, partition)
	require.EqualValues(x.t, 4, member(x.json("dlq", "errors", "--queue", "mend"), "matched"))
	require.EqualValues(x.t, 1, member(x.json("messages", "attempts", partition, "a"), "attempts", 0, "number"))
	require.Equal(x.t, "lane", member(x.json("messages", "resend", partition, "a"), "partition"))
	x.table("COUNT\n4", "dlq", "count", "mend")
	require.EqualValues(x.t, 1, member(x.json("dlq", "resend", partition, "b", "--group", "g", "--yes"), "removed"))
	x.table("COUNT\n3", "dlq", "count", "mend")
	x.json("messages", "discard", partition, "c", "--yes")
	x.table("COUNT\n2", "dlq", "count", "mend")
	job, _ := member(x.json("dlq", "start-job", "mend", "--group", "g", "--all", "--rate", "1", "--yes"), "id").(string)
	require.NotEmpty(x.t, job)
	require.Equal(x.t, job, member(x.json("dlq", "jobs"), "jobs", 0, "id"))
	x.json("dlq", "stop-job", job)

	x.json("queue", "pause", "mend", "--reason", "the press is repaired")
	require.Equal(x.t, "the press is repaired", member(x.json("pauses"), "pauses", 0, "reason"))
	changes := x.json("audit", "--queue", "mend")
	change, _ := member(changes, "entries", 0, "id").(string)
	x.json("audit", "undo", change, "--yes")
	require.Empty(x.t, member(x.json("pauses"), "pauses"))

	require.NotEmpty(x.t, member(x.json("queue", "namespaces"), "tags", 0, "name"))
	require.NotEmpty(x.t, member(x.json("queue", "tasks"), "tags", 0, "messages"))
	require.Equal(x.t, "lane", member(x.json("partition", "search", "mend", "an"), "partitions", 0, "name"))
}
