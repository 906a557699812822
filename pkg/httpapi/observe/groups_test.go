package observe_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/httpapi/observe"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/apitest"
)

const groupsPath = "/api/v1/consumer-groups"

var noon = time.Date(2026, 5, 16, 12, 0, 0, 123_456_789, time.UTC)

func TestGroupsAreListed(t *testing.T) {
	t.Parallel()
	apitest.RequireAnswer(t, &apitest.Fakes{}, apitest.Request("GET", groupsPath, ""), 200, `[]`)
	f := &apitest.Fakes{Groups: []stats.Group{
		{Name: "g", Queue: "q", Mode: queue.SubscribeAll, CreatedAt: noon},
		{
			Name: "g", Queue: "r", Mode: queue.SubscribeNew, StartAt: noon, CreatedAt: noon.Add(time.Second), Partitions: 3,
			Lagging: 2, Lag: 9, Oldest: 299 * time.Second, ConsumedAt: noon,
		},
		{Name: "h", Queue: "r", Mode: queue.SubscribeAll, ConsumedAt: noon, Oldest: 301 * time.Second},
		{Name: "i", Queue: "r", Mode: queue.SubscribeAll, Oldest: 301 * time.Second},
	}}
	apitest.RequireAnswer(t, f, apitest.Request("GET", groupsPath, ""), 200, `[
		{"name":"g","topics":["q"],"queueName":"q","members":0,"partitionsWithLag":0,"totalLag":0,"maxTimeLag":0,"state":"Stable","paused":false,
		 "subscriptionMode":null,"subscriptionTimestamp":null,"subscriptionCreatedAt":null},
		{"name":"g","topics":["r"],"queueName":"r","members":3,"partitionsWithLag":2,"totalLag":9,"maxTimeLag":299,"state":"Stable","paused":false,
		 "subscriptionMode":"new","subscriptionTimestamp":"2026-05-16T12:00:00.123Z","subscriptionCreatedAt":"2026-05-16T12:00:01.123Z"},
		{"name":"h","topics":["r"],"queueName":"r","members":0,"partitionsWithLag":0,"totalLag":0,"maxTimeLag":301,"state":"Lagging","paused":false,
		 "subscriptionMode":null,"subscriptionTimestamp":null,"subscriptionCreatedAt":null},
		{"name":"i","topics":["r"],"queueName":"r","members":0,"partitionsWithLag":0,"totalLag":0,"maxTimeLag":301,"state":"Dead","paused":false,
		 "subscriptionMode":null,"subscriptionTimestamp":null,"subscriptionCreatedAt":null}]`)
}

func TestGroupIsShown(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{}
	apitest.RequireAnswer(t, f, apitest.Request("GET", groupsPath+"/a%2Fb%20c", ""), 200, `{}`)
	require.Equal(t, []apitest.GroupCall{{Verb: "show", Group: "a/b c", Limit: observe.GroupLimit}}, f.GroupCalls)
	f = &apitest.Fakes{GroupQueues: []stats.QueueProgress{
		{Queue: "q", Truncated: true, Partitions: []stats.PartitionProgress{{Partition: "p", Lease: apitest.IDOne, Lag: 4, Age: 90 * time.Second, Consumed: 5, ConsumedAt: noon, Expired: 6}}},
		{Queue: "r"},
	}}
	apitest.RequireAnswer(t, f, apitest.Request("GET", groupsPath+"/g?limit=1000000", ""), 200, `{
		"q":{"partitions":[{"partition":"p","workerId":"`+apitest.IDOne.String()+`","lastConsumedAt":"2026-05-16T12:00:00.123Z",
		     "totalConsumed":5,"totalExpired":6,"offsetLag":4,"timeLagSeconds":90,"leaseActive":true}],"truncated":true},
		"r":{"partitions":[]}}`)
	require.Equal(t, observe.GroupLimitMax, f.GroupCalls[0].Limit)
}

func TestGroupNamedLaggingCanBeShown(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]apitest.GroupCall{
		"/lagging?detail=true": {Verb: "show", Group: "lagging", Limit: observe.GroupLimit},
		"/%6Cagging":           {Verb: "show", Group: "lagging", Limit: observe.GroupLimit},
		"/lagging":             {Verb: "lagging", Over: time.Hour, Limit: observe.GroupLimit},
	} {
		f := &apitest.Fakes{}
		require.Equal(t, http.StatusOK, apitest.Call(f, "GET", groupsPath+target, "").Code)
		require.Equal(t, []apitest.GroupCall{want}, f.GroupCalls, target)
	}
	f := &apitest.Fakes{}
	require.Equal(t, http.StatusOK, apitest.Call(f, "DELETE", groupsPath+"/lagging", "").Code)
	require.Equal(t, []apitest.GroupCall{{Verb: "delete", Group: "lagging"}}, f.GroupCalls)
}

func TestLaggingCursorsAreListed(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{Lagging: []stats.LaggingPartition{
		{Group: "g", Queue: "q", PartitionID: apitest.IDTwo, Oldest: noon, PartitionProgress: stats.PartitionProgress{Partition: "p", Lag: 3, Age: 5400 * time.Second}},
	}}
	apitest.RequireAnswer(t, f, apitest.Request("GET", groupsPath+"/lagging?minLagSeconds=0&limit=5", ""), 200, `[
		{"consumer_group":"g","queue_name":"q","partition_name":"p","partition_id":"`+apitest.IDTwo.String()+`","worker_id":null,"offset_lag":3,
		 "time_lag_seconds":5400,"lag_hours":1.5,"oldest_unconsumed_at":"2026-05-16T12:00:00.123Z","last_consumed_at":null}]`)
	require.Equal(t, []apitest.GroupCall{{Verb: "lagging", Limit: 5}}, f.GroupCalls)
	apitest.RequireAnswer(t, &apitest.Fakes{}, apitest.Request("GET", groupsPath+"/lagging", ""), 200, `[]`)
	for _, bad := range []string{"x", "-1", "1.5", "99999999999"} {
		text := apitest.RequireError(t, apitest.Call(&apitest.Fakes{}, "GET", groupsPath+"/lagging?minLagSeconds="+bad, ""), 400)
		require.Equal(t, `minLagSeconds is "`+bad+`": it must be a whole number of seconds between 0 and 2147483647`, text)
	}
}
