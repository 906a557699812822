package httpapi

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/catalog"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/stats"
)

const groupsPath = "/api/v1/consumer-groups"

var noon = time.Date(2026, 5, 16, 12, 0, 0, 123_456_789, time.UTC)

// requireAnswer checks an answer's status and body.
func requireAnswer(t *testing.T, f *fakes, method, target, body string, status int, want string) {
	t.Helper()
	rec := call(f, method, target, body)
	require.Equal(t, status, rec.Code, rec.Body)
	require.JSONEq(t, want, rec.Body.String(), target)
}

func TestGroupsAreListed(t *testing.T) {
	t.Parallel()
	requireAnswer(t, &fakes{}, "GET", groupsPath, "", 200, `[]`)
	f := &fakes{list: []stats.Group{
		{Name: "g", Queue: "q", Mode: queue.SubscribeAll, CreatedAt: noon},
		{
			Name: "g", Queue: "r", Mode: queue.SubscribeNew, StartAt: noon, CreatedAt: noon.Add(time.Second), Partitions: 3,
			Lagging: 2, Lag: 9, Oldest: 299 * time.Second, ConsumedAt: noon,
		},
		{Name: "h", Queue: "r", Mode: queue.SubscribeAll, ConsumedAt: noon, Oldest: 301 * time.Second},
	}}
	requireAnswer(t, f, "GET", groupsPath, "", 200, `[
		{"name":"g","topics":["q"],"queueName":"q","members":0,"partitionsWithLag":0,"totalLag":0,"maxTimeLag":0,"state":"Dead",
		 "subscriptionMode":null,"subscriptionTimestamp":null,"subscriptionCreatedAt":null},
		{"name":"g","topics":["r"],"queueName":"r","members":3,"partitionsWithLag":2,"totalLag":9,"maxTimeLag":299,"state":"Stable",
		 "subscriptionMode":"new","subscriptionTimestamp":"2026-05-16T12:00:00.123Z","subscriptionCreatedAt":"2026-05-16T12:00:01.123Z"},
		{"name":"h","topics":["r"],"queueName":"r","members":0,"partitionsWithLag":0,"totalLag":0,"maxTimeLag":301,"state":"Lagging",
		 "subscriptionMode":null,"subscriptionTimestamp":null,"subscriptionCreatedAt":null}]`)
}

func TestAGroupIsShown(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	requireAnswer(t, f, "GET", groupsPath+"/a%2Fb%20c", "", 200, `{}`)
	require.Equal(t, []groupCall{{verb: "show", group: "a/b c", limit: groupLimit}}, f.groups)
	f = &fakes{places: []stats.QueueProgress{
		{Queue: "q", Truncated: true, Partitions: []stats.PartitionProgress{{Partition: "p", Lease: idOne, Lag: 4, Age: 90 * time.Second, Consumed: 5, ConsumedAt: noon, Expired: 6}}},
		{Queue: "r"},
	}}
	requireAnswer(t, f, "GET", groupsPath+"/g?limit=1000000", "", 200, `{
		"q":{"partitions":[{"partition":"p","workerId":"`+idOne.String()+`","lastConsumedAt":"2026-05-16T12:00:00.123Z",
		     "totalConsumed":5,"totalExpired":6,"offsetLag":4,"timeLagSeconds":90,"leaseActive":true}],"truncated":true},
		"r":{"partitions":[]}}`)
	require.Equal(t, groupLimitMax, f.groups[0].limit)
}

func TestAGroupCalledLaggingIsReached(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]groupCall{
		"/lagging?detail=true": {verb: "show", group: "lagging", limit: groupLimit},
		"/%6Cagging":           {verb: "show", group: "lagging", limit: groupLimit},
		"/lagging":             {verb: "lagging", over: time.Hour, limit: groupLimit},
	} {
		f := &fakes{}
		require.Equal(t, http.StatusOK, call(f, "GET", groupsPath+target, "").Code)
		require.Equal(t, []groupCall{want}, f.groups, target)
	}
	f := &fakes{}
	require.Equal(t, http.StatusOK, call(f, "DELETE", groupsPath+"/lagging", "").Code)
	require.Equal(t, []groupCall{{verb: "delete", group: "lagging"}}, f.groups)
}

func TestLaggingPlaces(t *testing.T) {
	t.Parallel()
	f := &fakes{lagging: []stats.LaggingPartition{
		{Group: "g", Queue: "q", PartitionID: idTwo, Oldest: noon, PartitionProgress: stats.PartitionProgress{Partition: "p", Lag: 3, Age: 5400 * time.Second}},
	}}
	requireAnswer(t, f, "GET", groupsPath+"/lagging?minLagSeconds=0&limit=5", "", 200, `[
		{"consumer_group":"g","queue_name":"q","partition_name":"p","partition_id":"`+idTwo.String()+`","worker_id":null,"offset_lag":3,
		 "time_lag_seconds":5400,"lag_hours":1.5,"oldest_unconsumed_at":"2026-05-16T12:00:00.123Z","last_consumed_at":null}]`)
	require.Equal(t, []groupCall{{verb: "lagging", limit: 5}}, f.groups)
	requireAnswer(t, &fakes{}, "GET", groupsPath+"/lagging", "", 200, `[]`)
	for _, bad := range []string{"x", "-1", "1.5", "99999999999"} {
		text := requireError(t, call(&fakes{}, "GET", groupsPath+"/lagging?minLagSeconds="+bad, ""), 400)
		require.Equal(t, `minLagSeconds is "`+bad+`": it must be a whole number of seconds between 0 and 2147483647`, text)
	}
}

func TestDeletingAGroup(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]groupCall{
		"/g":                                   {verb: "delete", group: "g"},
		"/g?deleteMetadata=true":               {verb: "delete", group: "g"},
		"/g?deleteMetadata=1":                  {verb: "delete", group: "g"},
		"/g?deleteMetadata=false":              {verb: "delete", group: "g", keep: true},
		"/g/queues/q%2Fr":                      {verb: "delete of queue", group: "g", queue: "q/r"},
		"/g/queues/q%2Fr?deleteMetadata=false": {verb: "delete of queue", group: "g", queue: "q/r", keep: true},
	} {
		f := &fakes{}
		body := `{"success":true,"consumerGroup":"g","deletedPartitions":7,"metadataDeleted":true}`
		if want.keep {
			body = `{"success":true,"consumerGroup":"g","deletedPartitions":7,"metadataDeleted":false}`
		}
		if want.queue != "" {
			body = body[:len(body)-1] + `,"queueName":"q/r"}`
		}
		requireAnswer(t, f, "DELETE", groupsPath+target, "", 200, body)
		require.Equal(t, []groupCall{want}, f.groups, target)
	}
}

func TestMovingASubscription(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	requireAnswer(t, f, "POST", groupsPath+"/g/subscription", `{"subscriptionTimestamp":"2026-05-16T14:00:00.123456+02:00"}`, 200,
		`{"success":true,"consumerGroup":"g","newTimestamp":"2026-05-16T12:00:00.123Z","rowsUpdated":2}`)
	require.True(t, f.groups[0].start.Equal(noon.Truncate(time.Microsecond)))
	for body, want := range map[string]string{
		``:                               "Empty request body",
		`{}`:                             "subscriptionTimestamp is required",
		`{"subscriptionTimestamp":null}`: "subscriptionTimestamp is required",
		`{"subscriptionTimestamp":5}`:    `subscriptionTimestamp must be a timestamp like "2026-05-16T08:41:27.123Z", not 5`,
		`{"subscriptionTimestamp":"x"}`:  `subscriptionTimestamp is "x": it must be a timestamp like`,
	} {
		f := &fakes{}
		require.Contains(t, requireError(t, call(f, "POST", groupsPath+"/g/subscription", body), 400), want)
		require.False(t, f.reached())
	}
}

func TestSeekReadsBodyAndQuery(t *testing.T) {
	t.Parallel()
	at := func(text string) catalog.Place {
		instant, ok := parseInstant(text)
		require.True(t, ok)
		return catalog.Place{After: instant}
	}
	const path = groupsPath + "/g/queues/q/seek"
	for _, c := range []struct {
		query, body string
		want        catalog.Place
		flags       string
	}{
		{"", `{"toEnd":true}`, catalog.Place{End: true}, `"seekToEnd":true,"seekToBeginning":false,"targetTimestamp":null`},
		{"?toEnd=true", ``, catalog.Place{End: true}, `"seekToEnd":true,"seekToBeginning":false,"targetTimestamp":null`},
		{"", `{"toBeginning":true,"toEnd":false,"timestamp":null}`, catalog.Place{}, `"seekToEnd":false,"seekToBeginning":true,"targetTimestamp":null`},
		{"?toBeginning=1", `{}`, catalog.Place{}, `"seekToEnd":false,"seekToBeginning":true,"targetTimestamp":null`},
		{"", `{"toEnd":false,"timestamp":"2026-05-16"}`, at("2026-05-16"), `"seekToEnd":false,"seekToBeginning":false,"targetTimestamp":"2026-05-16T00:00:00.000Z"`},
		{"", `{"timestamp":"0001-01-01"}`, at("0001-01-01"), `"seekToEnd":false,"seekToBeginning":false,"targetTimestamp":"0001-01-01T00:00:00.000Z"`},
		{"?timestamp=2026-05-16T00:00:00Z", ``, at("2026-05-16"), `"seekToEnd":false,"seekToBeginning":false,"targetTimestamp":"2026-05-16T00:00:00.000Z"`},
	} {
		f := &fakes{}
		requireAnswer(t, f, "POST", path+c.query, c.body, 200,
			`{"success":true,"consumerGroup":"g","queueName":"q",`+c.flags+`,"partitionsUpdated":3}`)
		require.Equal(t, []groupCall{{verb: "seek", group: "g", queue: "q", place: c.want}}, f.groups)
	}
	for body, want := range map[string]string{
		``:                                     "Must specify either 'toEnd': true or 'timestamp', or 'toBeginning': true",
		`{}`:                                   "Must specify either 'toEnd': true or 'timestamp', or 'toBeginning': true",
		`{"toEnd":false}`:                      "Must specify either 'toEnd': true or 'timestamp', or 'toBeginning': true",
		`{"toEnd":1}`:                          "toEnd must be true or false, not 1",
		`{"timestamp":17}`:                     `timestamp must be a timestamp like "2026-05-16T08:41:27.123Z", not 17`,
		`{"timestamp":"0000-12-31T23:59:59Z"}`: `timestamp is "0000-12-31T23:59:59Z": it must be a timestamp like`,
		`{"timestamp":"9999-12-31T23:59:59-01:00"}`: `timestamp is "9999-12-31T23:59:59-01:00": it must be a timestamp like`,
		`{"timestamp":"soon"}`:                      `timestamp is "soon": it must be a timestamp like`,
		`{"toEnd":true,"toBeginning":tr`:            "Invalid JSON",
		`{"toEnd":true,"timestamp":"20"}`:           `timestamp is "20"`,
		`{"toEnd":true,"timestamp":"2026-05-16"}`:   "toEnd, toBeginning and timestamp exclude each other",
		`{"toEnd":true,"toBeginning":true}`:         "toEnd, toBeginning and timestamp exclude each other",
	} {
		f := &fakes{}
		require.Contains(t, requireError(t, call(f, "POST", path, body), 400), want, body)
		require.False(t, f.reached())
	}
	require.Contains(t, requireError(t, call(&fakes{}, "POST", path+"?timestamp=soon", ""), 400), `timestamp is "soon"`)
}

func TestSeekOfAPartitionGoesToTheEndUnlessToldOtherwise(t *testing.T) {
	t.Parallel()
	const path = groupsPath + "/g/queues/q/partitions/a%2Fb/seek"
	for body, want := range map[string]catalog.Place{``: {End: true}, `{}`: {End: true}, `{"toBeginning":true}`: {}} {
		f := &fakes{}
		requireAnswer(t, f, "POST", path, body, 200, `{"success":true,"consumerGroup":"g","queueName":"q","partitionName":"a/b",
			"updated":true,"cursorMovedTo":"`+idOne.String()+`"}`)
		require.Equal(t, []groupCall{{verb: "seek partition", group: "g", queue: "q", partition: "a/b", place: want}}, f.groups)
	}
	f := &fakes{seek: func(groupCall) (catalog.SoughtPartition, int64, error) { return catalog.SoughtPartition{}, 0, nil }}
	requireAnswer(t, f, "POST", path, "", 200,
		`{"success":true,"consumerGroup":"g","queueName":"q","partitionName":"a/b","updated":false,"cursorMovedTo":null}`)
	f = &fakes{seek: func(groupCall) (catalog.SoughtPartition, int64, error) {
		return catalog.SoughtPartition{}, 0, &queue.Error{Code: queue.CodeNotFound, Message: "Partition not found"}
	}}
	requireAnswer(t, f, "POST", path, "", 404, `{"success":false,"error":"Partition not found"}`)
	require.Contains(t, requireError(t, call(&fakes{}, "POST", path, `{"toEnd":"yes"}`), 400), `toEnd must be true or false, not "yes"`)
}
