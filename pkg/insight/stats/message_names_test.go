package stats_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// A search by name finds messages with the same status as a list. It also tells whether a group has finished them.
func TestMessagesAreFoundByTheirNames(t *testing.T) {
	r := newFixture(t)
	r.push("q", "p", "1", "2", "3", "4")
	r.push("other", "p", "1")
	d := r.pop("q", "p", "g", 3)
	r.ack(d, queue.AckCompleted, 0)
	r.ack(d, queue.AckDead, 1)
	r.push("skips", "p", "1", "2", "3")
	r.ack(r.pop("skips", "p", "g", 3), queue.AckDead, 2)
	name := func(queueName, partition, id, group string) stats.MessageName {
		return stats.MessageName{Queue: queueName, Partition: partition, TransactionID: id, Group: group}
	}
	known := map[stats.MessageName]string{
		name("q", "p", "1", "g"): "completed false", name("q", "p", "1", ""): "completed false", name("q", "p", "2", "g"): "dead_letter false",
		name("q", "p", "3", "g"): "pending true", name("q", "p", "4", "none"): "pending true", name("other", "p", "1", "g"): "pending true",
		name("skips", "p", "2", "g"): "pending true", name("skips", "p", "3", "g"): "dead_letter false",
	}
	names := []stats.MessageName{name("q", "p", "5", "g"), name("q", "x", "1", "g"), name("x", "p", "1", "g")}
	for one := range known {
		names = append(names, one)
	}
	found, err := r.Named(t.Context(), names)
	require.NoError(t, err)
	got := map[stats.MessageName]string{}
	for one, m := range found {
		got[one] = string(m.Status)
		if m.Unfinished {
			got[one] += " true"
		} else {
			got[one] += " false"
		}
		require.False(t, m.PartitionID.IsZero())
	}
	require.Equal(t, known, got)
	none, err := r.Named(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, none)
}
