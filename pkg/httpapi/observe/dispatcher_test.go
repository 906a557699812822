package observe_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dispatch"
	"github.com/belfry-mq/belfry/pkg/engine/batch"
	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/engine/store"
	"github.com/belfry-mq/belfry/pkg/httpapi/observe"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/apitest"
)

func TestDispatcherStatusListsTheWaitingRequests(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{
		Listener: observe.ListenerState{Listener: api.Listener{State: "degraded", SecondsSinceProof: 2, Reconnects: 3, Peers: 4}},
		Inbox:    &api.Inbox{Waiting: 5, Rejected: 6, OldestSeconds: 1.5, Sequencer: true, Holder: &api.InboxHolder{PID: 7, User: "u", Application: "a"}},
		Names:    map[queue.Target]catalog.Names{{Group: 8, Partition: 9}: {Queue: "orders", Group: "g", Partition: "eu"}},
		Flushes:  []store.Flushes{{Op: "push", Status: batch.Status{Waiting: 1, Blocked: 2, InFlight: 3}, Flushes: 4, Calls: 5, Size: 6, Duration: 7 * time.Second, Splits: 8, Retries: 9, Failures: 10}},
		Status: dispatch.Status{
			Waiting: 6,
			Groups: []dispatch.WaitingGroup{
				{Queue: "orders", Partition: "eu", Group: "g", Waiting: 5, Oldest: 3 * time.Second, Next: 7 * time.Second},
				{Namespace: "n", Task: "t", Group: "h", Waiting: 1},
			},
			Due:       []dispatch.DueInstant{{Target: queue.Target{Group: 8, Partition: 9}, In: 250 * time.Millisecond}},
			Backoff:   []dispatch.BackoffGroup{{Target: queue.Target{Group: 8}, EmptyProbes: 2, Delay: 400 * time.Millisecond}},
			Truncated: true,
		},
	}
	rec := apitest.Call(f, "GET", "/api/v1/status/dispatcher", "")
	require.Equal(t, http.StatusOK, rec.Code)
	require.JSONEq(t, `{
		"listener": {"state": "degraded", "secondsSinceProof": 2, "reconnects": 3, "peers": 4},
		"inbox": {"waiting": 5, "oldestSeconds": 1.5, "rejected": 6, "sequencer": true, "holder": {"pid": 7, "user": "u", "application": "a"}},
		"waiting": 6,
		"groups": [
			{"queue": "orders", "partition": "eu", "consumerGroup": "g", "waiting": 5, "oldestSeconds": 3, "nextTimeoutSeconds": 7},
			{"namespace": "n", "task": "t", "consumerGroup": "h", "waiting": 1, "oldestSeconds": 0, "nextTimeoutSeconds": 0}],
		"due": [{"groupId": 8, "partitionId": 9, "queue": "orders", "consumerGroup": "g", "partition": "eu", "inSeconds": 0.25}],
		"backoff": [{"groupId": 8, "emptyLooks": 2, "delaySeconds": 0.4}],
		"batches": [{"operation": "push", "waiting": 1, "blockedCallers": 2, "inFlight": 3, "flushes": 4, "calls": 5, "size": 6,
			"flushSeconds": 7, "splits": 8, "retries": 9, "failures": 10}],
		"truncated": true}`, rec.Body.String())
}

// An empty list is [] and not null.
func TestDispatcherStatusWithoutRequestsHasEmptyLists(t *testing.T) {
	t.Parallel()
	rec := apitest.Call(&apitest.Fakes{}, "GET", "/api/v1/status/dispatcher", "")
	require.JSONEq(t, `{
		"listener": {"state": "", "secondsSinceProof": 0, "reconnects": 0, "peers": 0},
		"waiting": 0, "groups": [], "due": [], "backoff": [], "batches": [], "truncated": false}`, rec.Body.String())
}
