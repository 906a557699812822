package integration_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client/api"
)

// Problems, lists of queues and groups, events, metrics and the doctor agree which queues are late.
func TestLateMeansTheSameEverywhere(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := s.client(t)
	old := func(queueName string, age time.Duration) {
		c.exec(`UPDATE belfry.message m SET created_at = clock_timestamp() - make_interval(secs => $2)
		          FROM belfry.partition p JOIN belfry.queue q ON q.id = p.queue_id WHERE p.id = m.partition_id AND q.name = $1`, queueName, age.Seconds())
	}
	for name, one := range map[string]struct {
		age     time.Duration
		prepare func(queueName string)
		late    bool
	}{
		"fresh": {age: 30 * time.Second},
		"old":   {age: 90 * time.Second, late: true},
		"no-group": {age: time.Hour, prepare: func(name string) {
			c.send1(call{Method: http.MethodDelete, Target: "/api/v1/consumer-groups/g/queues/" + name})
		}},
		"short-wait":     {age: 30 * time.Second, prepare: func(name string) { options(c, name, "maxWaitTimeSeconds", 40) }, late: true},
		"long-wait":      {age: 10 * time.Minute, prepare: func(name string) { options(c, name, "maxWaitTimeSeconds", 3600) }},
		"long-wait-late": {age: 31 * time.Minute, prepare: func(name string) { options(c, name, "maxWaitTimeSeconds", 3600) }, late: true},
		"delayed":        {age: time.Hour, prepare: func(name string) { options(c, name, "delayedProcessing", 7200) }},
		"paused":         {age: time.Hour, prepare: func(name string) { c.send1(post("/api/v1/resources/queues/"+name+"/pause", "")) }},
		"paused-group": {age: time.Hour, prepare: func(name string) {
			c.send1(post("/api/v1/consumer-groups/g/queues/"+name+"/pause", ""))
		}},
	} {
		known(c, name)
		require.Equal(t, http.StatusNoContent, c.pop(name, "consumerGroup=g&subscriptionMode=all").Status)
		c.pushIDs(name, "p", "1")
		if one.prepare != nil {
			one.prepare(name)
		}
		old(name, one.age)
		if name == "delayed" {
			c.exec(`UPDATE belfry.cursor c SET ready_at = now() + interval '1 hour' FROM belfry.consumer_group g JOIN belfry.queue q ON q.id = g.queue_id
			         WHERE g.id = c.group_id AND q.name = $1`, name)
		}
	}
	want := []string{"long-wait-late", "old", "short-wait"}

	var listed []string
	for _, q := range ask[api.QueuePage](c, get("/api/v1/queues")).ok(http.StatusOK).Queues {
		if q.Late {
			listed = append(listed, q.Name)
		}
	}
	require.Equal(t, want, listed, "the list of queues")
	var groups []string
	for _, name := range []string{"delayed", "fresh", "long-wait", "long-wait-late", "old", "paused", "paused-group", "short-wait"} {
		for _, g := range ask[api.QueueGroups](c, get("/api/v1/resources/queues/"+name+"/groups")).ok(http.StatusOK).Groups {
			if g.Late {
				groups = append(groups, name)
			}
		}
	}
	require.Equal(t, want, groups, "the groups of a queue")
	found := map[string]bool{}
	for _, p := range ask[api.Problems](c, get("/api/v1/problems")).ok(http.StatusOK).Problems {
		if p.Kind == "lag" {
			found[*p.Queue] = true
		}
	}
	require.Equal(t, map[string]bool{"long-wait-late": true, "old": true, "short-wait": true}, found, "the problems")

	snapshot := s.openStream(t, watchEvents()).until("snapshot", "")
	var told struct{ Data api.Snapshot }
	require.NoError(t, json.Unmarshal(snapshot.data, &told))
	var late []string
	for _, g := range told.Data.Lag {
		late = append(late, fmt.Sprint(g.Queue, " ", g.ThresholdSeconds))
	}
	require.Equal(t, []string{"long-wait-late 1800", "old 60", "short-wait 20"}, late, "the events")
	until(t, "the metrics agree", func() bool {
		return s.metric(t, "belfry_late_groups") == 3
	})
	for _, check := range ask[api.Examination](c, get("/api/v1/doctor")).ok(http.StatusOK).Checks {
		if check.Code == "groups_behind" {
			require.Contains(t, check.Found, "3 groups are late")
			return
		}
	}
	require.Fail(t, "the doctor has no check groups_behind")
}
