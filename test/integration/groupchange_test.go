package integration_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const groupsPath = "/api/v1/consumer-groups"

// seek is the answer to a seek of a group or of a partition.
type seek struct {
	Success           bool    `json:"success"`
	PartitionsUpdated int     `json:"partitionsUpdated"`
	Updated           bool    `json:"updated"`
	CursorMovedTo     *string `json:"cursorMovedTo"`
	TargetTimestamp   *string `json:"targetTimestamp"`
}

type groupDeletion struct {
	Success           bool `json:"success"`
	DeletedPartitions int  `json:"deletedPartitions"`
	MetadataDeleted   bool `json:"metadataDeleted"`
}

func (c client) seek(group, queue, body string) seek {
	c.t.Helper()
	target := groupsPath + "/" + url.PathEscape(group) + "/queues/" + url.PathEscape(queue) + "/seek"
	return ask[seek](c, post(target, body)).ok(http.StatusOK)
}

func (c client) deleteGroup(group, query string) groupDeletion {
	c.t.Helper()
	return ask[groupDeletion](c, remove(groupsPath+"/"+url.PathEscape(group)+query)).ok(http.StatusOK)
}

// docs/compatibility.md promises that the stored subscription has priority over request parameters, and that deletions and
// seeks of groups take effect at once. The test uses the same instance and another one.
func TestGroupChangesTakeEffectAtOnce(t *testing.T) {
	t.Parallel()
	first := start(t, proven)
	other := startOn(t, first.dsn, proven)
	first.untilProven(t, 1)
	other.untilProven(t, 1)
	for name, run := range map[string]func(t *testing.T, a, b client, queue string){
		"the stored subscription has priority":          groupStoredWins,
		"delete takes effect at once":                   groupDelete,
		"delete fences leases":                          groupDeleteFences,
		"waiting pops of a deleted group start again":   groupDeleteWhileWaiting,
		"seek takes effect at once":                     groupSeek,
		"seek fences leases":                            groupSeekFences,
		"seek wakes waiting requests":                   groupSeekWakes,
		"a queue created while a pop waits":             groupQueueBornWhileWaiting,
		"a start in the future is respected":            groupStartsLater,
		"a moved subscription applies to a new group":   groupSubscription,
		"pops by tags register in every matching queue": groupTagged,
		"pops by tags follow the priority":              groupPriority,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			queue := fmt.Sprintf("q %x/ü%%", time.Now().UnixNano())
			run(t, first.client(t), other.client(t), queue)
		})
	}
}

// q escapes a name for a path.
func q(name string) string { return url.PathEscape(name) }

func groupStoredWins(t *testing.T, a, b client, queue string) {
	a.pushIDs(queue, "p", "1")
	require.Empty(t, a.popIDs(queue, "consumerGroup=g&subscriptionMode=new"))
	for _, query := range []string{"", "&subscriptionMode=all", "&subscriptionFrom=1999-12-31"} {
		require.Empty(t, b.popIDs(queue, "consumerGroup=g"+query), query)
	}
}

func groupDelete(t *testing.T, a, b client, queue string) {
	a.pushIDs(queue, "p", "1", "2")
	a.pushIDs(queue, "o", "3")
	for _, c := range []client{a, b} {
		require.Empty(t, c.popIDs(queue, "consumerGroup=h&subscriptionMode=new"))
	}
	require.Empty(t, a.popIDs(queue, "consumerGroup=h&subscriptionMode=all"))
	require.Equal(t, groupDeletion{true, 2, true}, b.deleteGroup("h", "/queues/"+q(queue)))
	require.Equal(t, groupDeletion{true, 0, true}, b.deleteGroup("h", "/queues/"+q(queue)))
	require.ElementsMatch(t, []string{"1", "2", "3"}, a.popIDs(queue, "consumerGroup=h&batch=9&partitions=9"), "a new group must receive all messages at once")
	require.Empty(t, b.popIDs(queue, "consumerGroup=h"))
}

func groupDeleteFences(t *testing.T, a, b client, queue string) {
	group := "g-" + queue
	a.pushIDs(queue, "p", "1", "2")
	old := a.pop(queue, "batch=2&consumerGroup="+url.QueryEscape(group)).ok(http.StatusOK)
	refused := func() {
		t.Helper()
		for _, c := range []client{a, b} {
			for _, status := range []string{"completed", "failed", "dlq", "retry"} {
				for _, one := range c.ackBatch(group, old.ack(status)...).ok(http.StatusOK) {
					require.False(t, one.Success)
					require.Equal(t, "Invalid or expired lease", one.reason())
				}
			}
			require.Equal(t, http.StatusNotFound, c.extend(old.LeaseID, `{}`).Status)
		}
	}
	require.Equal(t, 1, b.deleteGroup(group, "").DeletedPartitions)
	refused()
	fresh := a.pop(queue, "batch=2&consumerGroup="+url.QueryEscape(group)).ok(http.StatusOK)
	require.Equal(t, []string{"1", "2"}, fresh.ids())
	refused()
	for _, one := range b.ackBatch(group, fresh.ack("completed")...).ok(http.StatusOK) {
		require.True(t, one.Success, one.reason())
	}
	require.Empty(t, b.popIDs(queue, "consumerGroup="+url.QueryEscape(group)))
}

// A consumer that polls creates the deleted group again. Messages that were stored before are not new for the new group,
// whatever the waiting pop has read.
func groupDeleteWhileWaiting(t *testing.T, a, b client, queue string) {
	a.configure(queue, nil).ok(http.StatusOK)
	const query = "consumerGroup=g&subscriptionMode=new&batch=9"
	require.Empty(t, a.popIDs(queue, query))
	b.pushIDs(queue, "p", "leased")
	require.Equal(t, []string{"leased"}, b.popIDs(queue, query))
	waiting := a.begin(popCall(queue, query+"&wait=true&timeout=60000"))
	a.untilParked(t, queue, 1)
	b.pushIDs(queue, "p", "behind the lease")
	b.deleteGroup("g", "/queues/"+q(queue))
	until(t, "the group is created again", func() bool {
		var n int
		a.scan(t, `SELECT count(*) FROM belfry.consumer_group g JOIN belfry.queue q ON q.id = g.queue_id WHERE q.name = $1`, []any{queue}, &n)
		return n == 1
	})
	b.pushIDs(queue, "p", "new")
	require.Equal(t, []string{"new"}, waiting.delivery().ok(http.StatusOK).ids())
}

// A pop waits for a missing queue or partition. It must receive the first message, even with subscriptionMode=new, because
// the pop waited before the message was stored.
func groupQueueBornWhileWaiting(t *testing.T, a, b client, queue string) {
	for _, c := range []client{a, b} { // the first push creates the queue, the second one a partition
		partition := map[client]string{a: "p", b: "later"}[c]
		waiting := a.begin(popPartitionCall(queue, partition, "consumerGroup="+partition+"&subscriptionMode=new&wait=true&timeout=60000"))
		elsewhere := a.begin(popCall(queue, "consumerGroup=any-"+partition+"&subscriptionMode=new&wait=true&timeout=60000"))
		a.untilParked(t, queue, 2)
		c.pushIDs(queue, partition, "first of "+partition)
		for _, w := range []*pendingCall{waiting, elsewhere} {
			require.Equal(t, []string{"first of " + partition}, w.delivery().ok(http.StatusOK).ids())
		}
	}
}

func groupStartsLater(t *testing.T, a, b client, queue string) {
	a.pushIDs(queue, "p", "1")
	var start time.Time
	a.scan(t, "SELECT clock_timestamp() + interval '6 seconds'", nil, &start)
	query := "batch=9&partitions=9&autoAck=true&consumerGroup=g&subscriptionFrom=" + url.QueryEscape(start.Format(time.RFC3339Nano))
	require.Empty(t, a.popIDs(queue, query))
	waiting := b.begin(popCall(queue, query+"&wait=true&timeout=60000"))
	b.untilParked(t, queue, 1)
	a.pushIDs(queue, "p", "2")
	a.pushIDs(queue, "created before the start", "3")
	require.Empty(t, a.popIDs(queue, query), "messages stored before the start must be invisible")
	require.Empty(t, a.popPartition(queue, "p", query).Raw)
	var early bool
	a.scan(t, "SELECT clock_timestamp() < $1", []any{start}, &early)
	require.True(t, early, "the machine was too slow for this test: the start came before the pops")
	until(t, "the start is in the past", func() bool {
		a.scan(t, "SELECT clock_timestamp() < $1", []any{start}, &early)
		return !early
	})
	require.Empty(t, a.popIDs(queue, query), "messages stored before the start must stay invisible")
	a.pushIDs(queue, "p", "4")
	require.Equal(t, []string{"4"}, waiting.delivery().ok(http.StatusOK).ids())
	a.pushIDs(queue, "created before the start", "5")
	require.Equal(t, []string{"5"}, a.popIDs(queue, query))
	a.seek("g", queue, `{"toBeginning":true}`)
	require.ElementsMatch(t, []string{"1", "2", "3", "4", "5"}, a.popIDs(queue, query), "a seek must override the start")
}

func groupSubscription(t *testing.T, a, b client, queue string) {
	group := "g-" + queue
	query := "batch=9&autoAck=true&consumerGroup=" + url.QueryEscape(group)
	for _, id := range []string{"1", "2", "3"} {
		a.pushIDs(queue, "p", id)
	}
	second := a.pop(queue, "batch=9&consumerGroup=peek").ok(http.StatusOK).Messages[1].CreatedAt
	path := groupsPath + "/" + q(group) + "/subscription"
	move := func(c client) map[string]json.RawMessage {
		return ask[map[string]json.RawMessage](c, post(path, `{"subscriptionTimestamp":"`+second+`"}`)).ok(http.StatusOK)
	}
	require.Equal(t, "0", string(move(a)["rowsUpdated"]))
	require.Empty(t, a.popIDs(queue, query+"&subscriptionMode=new"))
	require.Equal(t, "1", string(move(b)["rowsUpdated"]))
	require.Empty(t, a.popIDs(queue, query), "a group with a cursor must keep its position")
	a.deleteGroup(group, "?deleteMetadata=false")
	require.Equal(t, []string{"3"}, b.popIDs(queue, query+"&subscriptionMode=new"))
	refused := ask[seek](a, post(path, `{"subscriptionTimestamp":"soon"}`))
	require.Equal(t, http.StatusBadRequest, refused.Status)
	require.Contains(t, refused.failure, "subscriptionTimestamp")
}

func groupTagged(t *testing.T, a, b client, _ string) {
	ns := fmt.Sprintf("ns%x", time.Now().UnixNano())
	for _, task := range []string{"x", "y"} {
		a.pushIDs(ns+"."+task, "", "old "+task)
	}
	tags := "consumerGroup=g&subscriptionMode=new&autoAck=true&namespace=" + ns
	require.Empty(t, ask[delivery](b, popTaggedCall(tags)).Raw)
	for _, task := range []string{"x", "y"} {
		a.pushIDs(ns+"."+task, "", "new "+task)
	}
	got := []string{}
	for range 2 {
		got = append(got, ask[delivery](a, popTaggedCall(tags)).ok(http.StatusOK).ids()...)
	}
	require.ElementsMatch(t, []string{"new x", "new y"}, got)

	// One of the two queues delivers at once. The group must be registered in the other queue as well.
	tags = "consumerGroup=h&subscriptionFrom=1999-12-31&autoAck=true&namespace=" + ns
	require.Len(t, ask[delivery](b, popTaggedCall(tags)).ok(http.StatusOK).ids(), 1)
	var joined int
	a.scan(t, `SELECT count(*) FROM belfry.consumer_group g JOIN belfry.queue q ON q.id = g.queue_id
		WHERE q.namespace = $1 AND g.name = 'h' AND g.whole_queue`, []any{ns}, &joined)
	require.Equal(t, 2, joined)

	// Another instance creates a queue later.
	tags = "consumerGroup=i&subscriptionMode=new&wait=true&timeout=60000&namespace=" + ns
	waiting := b.begin(popTaggedCall(tags))
	until(t, "the pop waits", func() bool {
		for _, g := range b.status(t).Groups {
			if g.Namespace == ns && g.Waiting == 1 {
				return true
			}
		}
		return false
	})
	a.pushIDs(ns+".z", "", "first of z")
	require.Equal(t, []string{"first of z"}, waiting.delivery().ok(http.StatusOK).ids())
}

func groupPriority(t *testing.T, a, b client, _ string) {
	ns := fmt.Sprintf("pr%x", time.Now().UnixNano())
	for _, one := range []struct {
		task     string
		priority int
	}{{"low", -1}, {"older", 0}, {"high", 7}, {"younger", 0}, {"highest", 9}} {
		a.send1(post(configurePath, encode(map[string]any{
			"queue": ns + "." + one.task, "namespace": ns, "options": map[string]any{"priority": one.priority},
		})))
		if one.task != "highest" { // the queue highest stays empty
			a.pushIDs(ns+"."+one.task, "", one.task)
		}
	}
	next := func(c client, group string) string {
		tags := "autoAck=true&consumerGroup=" + group + "&namespace=" + ns
		return ask[delivery](c, popTaggedCall(tags)).ok(http.StatusOK).ids()[0]
	}
	for _, want := range []string{"high", "older", "younger", "low"} {
		require.Equal(t, want, next(a, "g"))
	}
	require.Equal(t, "high", next(b, "h"), "the first pop of a new group must follow the priority too")
}
