package integration_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/pgtest"
)

// listedPlace is the progress of a group in one partition.
type listedPlace struct {
	Partition            string
	Lag, LeasedMessages  int
	LeaseID              string
	LeasedAt, LeaseUntil *time.Time
	Holder               *struct{ Caller, UserAgent string }
	Cause                *string
	Failures             int
}

type listedPlaces struct {
	Partitions []listedPlace
	Pagination struct {
		Next *string
	}
}

// groupInQueue is GET /api/v1/consumer-groups/{group}/queues/{queue}.
type groupInQueue struct {
	Group struct {
		Name                                                   string
		Paused                                                 bool
		Lag, Due, Leased, Resting, LeasedMessages, DeadLetters int
	}
	Places struct{ Due, Leased, Resting listedPlaces }
}

func (c client) places(query string) listedPlaces {
	c.t.Helper()
	return ask[listedPlaces](c, get("/api/v1/consumer-groups/g/queues/q/partitions?"+query)).ok(http.StatusOK)
}

// The answer for a group of one queue must list partitions in three lists: due, leased (with the holders of the leases) and
// resting. The preview of a seek must predict the effect of the seek. pkg/insight/stats tests the figures.
func TestAGroupInOneQueue(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	const of = "/api/v1/consumer-groups/g/queues/q"
	require.Equal(t, http.StatusNotFound, ask[any](c, get(of)).Status)
	for _, partition := range []string{"a", "b", "c"} {
		c.pushIDs("q", partition, partition+"1", partition+"2")
	}
	require.Equal(t, http.StatusNotFound, ask[any](c, get(of)).Status, "the group must not exist before its first pop")
	options(c, "q", "retryDelay", 600_000)
	began := time.Now().Add(-time.Second)
	held := c.popPartition("q", "a", "consumerGroup=g&batch=2").ok(http.StatusOK)
	c.ackBatch("g", c.popPartition("q", "b", "consumerGroup=g").ok(http.StatusOK).ack("failed")...).ok(http.StatusOK)
	c.popPartition("q", "c", "consumerGroup=g&autoAck=true").ok(http.StatusOK)

	shown := ask[groupInQueue](c, get(of+"?fresh=true")).ok(http.StatusOK)
	require.Equal(t, "g", shown.Group.Name)
	require.Equal(t, [4]int{5, 1, 1, 1}, [4]int{shown.Group.Lag, shown.Group.Due, shown.Group.Leased, shown.Group.Resting})
	lease := shown.Places.Leased.Partitions[0]
	require.Equal(t, [2]string{"a", held.LeaseID}, [2]string{lease.Partition, lease.LeaseID})
	require.WithinRange(t, *lease.LeasedAt, began, time.Now())
	require.Equal(t, "127.0.0.1", lease.Holder.Caller)
	require.Equal(t, "retry", *shown.Places.Resting.Partitions[0].Cause)
	require.Equal(t, "c", shown.Places.Due.Partitions[0].Partition)

	require.Len(t, c.places("").Partitions, 3)
	page := c.places("limit=2")
	require.Equal(t, "a", *page.Pagination.Next, "the first page must end at a, because the group has no cursor in Default")
	require.Equal(t, "b", c.places("limit=2&cursor=a").Partitions[0].Partition)
	require.Equal(t, "b", c.places("from=b").Partitions[0].Partition)
	require.Empty(t, c.places("list=leased&cursor="+*c.places("list=leased&limit=1").Pagination.Next).Partitions)
	ask[any](c.loose(), get(of+"/partitions?list=all")).refused(`list is "all": it must be name, due, leased or resting`)
	ask[any](c, get(of+"/partitions?list=due&cursor=1")).refused(`cursor is "1": use pagination.next of the previous page`)

	ask[any](c, get(of+"/seek")).refused("send one of toEnd=true, toBeginning=true and timestamp")
	type preview struct {
		MessagesAgain, MessagesSkipped, LeasesEnded int
		CountsAreLowerBounds                        bool
	}
	seek := func(query string) preview { return ask[preview](c, get(of+"/seek?"+query)).ok(http.StatusOK) }
	require.Equal(t, preview{0, 5, 1, false}, seek("toEnd=true"))
	require.Equal(t, preview{1, 0, 1, false}, seek("toBeginning=true"))
	require.Equal(t, preview{1, 0, 0, false}, seek("toBeginning=true&partition=c"))
	require.Equal(t, preview{0, 5, 1, false}, seek("timestamp=2100-01-01"))
	c.send1(post(of+"/seek", `{"toBeginning":true}`))
	require.Equal(t, 6, ask[groupInQueue](c, get(of+"?fresh=true")).ok(http.StatusOK).Group.Lag)

	type queueOfGroups struct {
		Partitions int
		Messages   struct{ Total int }
		Groups     []struct{ Name string }
	}
	listed := ask[queueOfGroups](c, get("/api/v1/resources/queues/q/groups")).ok(http.StatusOK)
	require.Equal(t, [2]int{4, 6}, [2]int{listed.Partitions, listed.Messages.Total}, "with the partition Default")
	require.Equal(t, "g", listed.Groups[0].Name)
	type heat struct {
		Partitions []struct {
			Name string
			Lag  int
		}
	}
	worst := ask[heat](c, get("/api/v1/resources/queues/q/partitions?order=worst&limit=2")).ok(http.StatusOK)
	require.Len(t, worst.Partitions, 2)
	require.Equal(t, 2, worst.Partitions[0].Lag)
	require.Equal(t, "c", ask[heat](c, get("/api/v1/resources/queues/q/partitions?from=c")).ok(http.StatusOK).Partitions[0].Name)
	ask[any](c.loose(), get("/api/v1/resources/queues/q/partitions?order=best")).refused(`order is "best": it must be name or worst`)
	require.Equal(t, http.StatusNotFound, ask[any](c, get("/api/v1/resources/queues/no/partitions")).Status)
	require.Equal(t, http.StatusNotFound, ask[any](c, get("/api/v1/resources/queues/no/groups")).Status)
}

// An instance does not know who holds a lease that another instance gave.
func TestOnlyTheInstanceOfALeaseKnowsItsHolder(t *testing.T) {
	t.Parallel()
	database := pgtest.Database(t)
	one, other := startOn(t, database).client(t), startOn(t, database).client(t)
	one.pushIDs("q", "p", "1")
	one.pop("q", "consumerGroup=g").ok(http.StatusOK)
	require.NotNil(t, one.places("list=leased").Partitions[0].Holder)
	found := other.places("list=leased").Partitions[0]
	require.Nil(t, found.Holder)
	require.NotNil(t, found.LeasedAt)
}

// countLimit must limit the number of partitions that a queue's totals cover. Without countLimit they cover all partitions.
func TestTotalsOfSomePartitions(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	for _, partition := range []string{"a", "b", "c"} {
		c.pushIDs("q", partition, "1", "2")
	}
	type status struct {
		Partitions []any
		Totals     struct{ Total int }
		Pagination struct{ TotalsAreLowerBounds *bool }
	}
	const path = "/api/v1/status/queues/q?limit=0"
	require.Nil(t, ask[status](c, get(path)).ok(http.StatusOK).Pagination.TotalsAreLowerBounds)
	for limit, want := range map[string]int{"0": 0, "2": 4, "3": 6} {
		got := ask[status](c, get(path+"&countLimit="+limit)).ok(http.StatusOK)
		require.Empty(t, got.Partitions)
		require.Equal(t, want, got.Totals.Total)
		require.Equal(t, want < 6, *got.Pagination.TotalsAreLowerBounds)
	}
	ask[any](c.loose(), get(path+"&countLimit=x")).refused(`countLimit is "x": it must be a whole number between 0 and 10000`)
}
