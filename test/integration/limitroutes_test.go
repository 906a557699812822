package integration_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/test/pgtest"
)

const queueLimits = "/api/v1/resources/queues/q/limits"

func limitsOf(group string) string { return groupsPath + "/" + group + "/queues/q/limits" }

// setLimits sends a PUT that must succeed.
func (c client) setLimits(path, body string) api.LimitsSet {
	c.t.Helper()
	return ask[api.LimitsSet](c, put(path, body)).ok(http.StatusOK)
}

func (c client) showLimits(group string) api.GroupLimits {
	c.t.Helper()
	return ask[api.GroupLimits](c, get(limitsOf(group))).ok(http.StatusOK)
}

// The limits of a group come before the default of its queue, and may be set before its first pop. The next pop obeys a change.
func TestLimits(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	require.Equal(t, http.StatusNotFound, ask[api.Error](c.loose(), put(queueLimits, `{"concurrency":1}`)).Status)
	require.Equal(t, http.StatusNotFound, ask[api.Error](c.loose(), get(queueLimits)).Status)
	require.Equal(t, http.StatusNotFound, ask[api.Error](c.loose(), get(limitsOf("g"))).Status)
	for _, partition := range []string{"1", "2", "3", "4"} {
		c.pushIDs("q", partition, "m"+partition)
	}
	require.Nil(t, c.showLimits("g").Limits)
	require.Nil(t, c.showLimits("g").Source)

	set := c.setLimits(limitsOf("g"), `{"concurrency":1,"rateLimit":{"messages":90,"per":"90s"}}`)
	want := &api.Limits{Concurrency: 1, RateLimit: &api.RateLimit{Messages: 90, Per: "1m30s", Burst: 90}}
	require.Equal(t, api.LimitsSet{Success: true, Queue: "q", ConsumerGroup: new("g"), Changed: true, Limits: want}, set)
	require.True(t, c.setLimits(queueLimits, `{"concurrency":2}`).Changed)
	require.False(t, c.setLimits(queueLimits, `{"concurrency":2}`).Changed)
	pop := func(group string) int { return c.pop("q", "consumerGroup="+group+"&subscriptionMode=all").Status }
	require.Equal(t, []int{200, 204}, []int{pop("g"), pop("g")})
	require.Equal(t, []int{200, 200, 204}, []int{pop("other"), pop("other"), pop("other")})
	shown := c.showLimits("g")
	require.Equal(t, []any{want, "group", int64(1), int64(89)}, []any{shown.Limits, *shown.Source, *shown.Use.LiveLeases, *shown.Use.Tokens})
	require.NotNil(t, shown.Use.LimitedUntil)
	shown = c.showLimits("other")
	require.Equal(t, []any{"queue", int64(2)}, []any{*shown.Source, *shown.Use.LiveLeases})
	require.Nil(t, shown.Use.Tokens)

	c.setLimits(limitsOf("g"), `{"concurrency":2}`)
	require.Equal(t, []int{200, 204}, []int{pop("g"), pop("g")})
	removed := ask[api.LimitsSet](c, remove(limitsOf("g"))).ok(http.StatusOK)
	require.Equal(t, []any{true, &api.Limits{Concurrency: 2}, (*api.Limits)(nil)}, []any{removed.Changed, removed.Before, removed.Limits})
	require.False(t, ask[api.LimitsSet](c, remove(limitsOf("g"))).ok(http.StatusOK).Changed)
	require.Equal(t, "queue", *c.showLimits("g").Source)
	require.Equal(t, 204, pop("g"), "the default of the queue allows two leases")
	c.setLimits(limitsOf("g"), `{}`)
	require.Equal(t, []any{"group", &api.Limits{}}, []any{*c.showLimits("g").Source, c.showLimits("g").Limits})
	require.Equal(t, 200, pop("g"), "an empty object is no limits")
	require.Equal(t, 204, pop("other"))
	require.True(t, ask[api.LimitsSet](c, remove(queueLimits)).ok(http.StatusOK).Changed)
	require.Equal(t, 200, pop("other"))

	require.Equal(t, []string{
		"limits.remove q/", "limits.set q/g", "limits.remove q/g", "limits.remove q/g", "limits.set q/g", "limits.set q/", "limits.set q/", "limits.set q/g",
	}, c.limitChanges())
}

// limitChanges returns the changes of limits in the audit.
func (c client) limitChanges() (changes []string) {
	for _, entry := range c.audit("limit=100").Entries {
		if entry.Result == "ok" && strings.HasPrefix(entry.Action, "limits.") {
			changes = append(changes, entry.Action+" "+entry.Queue+"/"+entry.ConsumerGroup)
		}
	}
	return changes
}

// A dry run answers as a change does, and changes nothing.
func TestADryRunOfLimits(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	c.pushIDs("q", "p", "1")
	dry := c.setLimits(limitsOf("g")+"?dryRun=true", `{"rateLimit":{"messages":1,"per":"60s"}}`)
	require.Equal(t, []any{true, true, "1m"}, []any{dry.DryRun, dry.Changed, dry.Limits.RateLimit.Per})
	require.Nil(t, c.showLimits("g").Limits)
	require.Empty(t, c.limitChanges())
}

// Each mistake in limits is a 400 that names the member and says what to change. belfry.limit_group refuses the same.
func TestBadLimitsAreRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	c, conn := s.client(t), producer(t, s.dsn)
	c.pushIDs("q", "p", "1")
	for body, want := range map[string]string{
		`{"concurency":5}`: "unknown members: concurency: Use concurrency, rateLimit,",
		`{"rateLimit":{"messages":1,"per":"1s","bursts":2}}`: "unknown members of rateLimit: bursts",
		`{"concurrency":0}`:                                         "concurrency is 0: Give a whole number from 1 to 10000.",
		`{"concurrency":10001}`:                                     "concurrency is 10001",
		`{"concurrency":1.5}`:                                       "concurrency is 1.5",
		`{"concurrency":"5"}`:                                       `concurrency is "5"`,
		`{"concurrency":1e300}`:                                     "concurrency is 1000",
		`{"rateLimit":100}`:                                         "rateLimit is 100: Give an object with the members messages, per, burst.",
		`{"rateLimit":{"messages":100}}`:                            "rateLimit has no per",
		`{"rateLimit":{"per":"1s"}}`:                                "rateLimit has no messages",
		`{"rateLimit":{"messages":100,"per":"1d"}}`:                 `rateLimit.per is "1d": Give a duration from 1ms to 24h`,
		`{"rateLimit":{"messages":100,"per":60}}`:                   "rateLimit.per is 60",
		`{"rateLimit":{"messages":100,"per":"25h"}}`:                `rateLimit.per is "25h"`,
		`{"rateLimit":{"messages":100,"per":"0.5ms"}}`:              `rateLimit.per is "0.5ms"`,
		`{"rateLimit":{"messages":1001,"per":"1ms"}}`:               "rateLimit has 1001 messages in 1ms: The greatest rate is 1000000 messages a second.",
		`{"rateLimit":{"messages":1,"per":"1s","burst":0}}`:         "rateLimit.burst is 0",
		`{"fair":true}`:                                             "unknown members: fair",
		`{"breaker":{}}`:                                            "breaker has neither failures nor share",
		`{"breaker":{"share":1.5}}`:                                 "breaker.share is 1.5",
		`{"breaker":{"share":"half"}}`:                              `breaker.share is "half"`,
		`{"breaker":{"failures":1,"pause":"20m","pauseMax":"10m"}}`: "breaker.pauseMax is 10m, and breaker.pause is 20m",
		`{"onExhausted":"drop"}`:                                    `onExhausted is "drop": Use "deadLetter", "block" or "skip".`,
		`{"onExhausted":{"a":1}}`:                                   "onExhausted is",
		`[]`:                                                        "",
		`{"concurrency":9` + strings.Repeat("9", 200) + `}`:         "concurrency is 9999",
		`{"onExhausted":"` + strings.Repeat("x", 5000) + `"}`:       "onExhausted is",
		`{"rateLimit":{"messages":1,"per":"` + strings.Repeat("9", 50) + `h"}}`: "rateLimit.per is",
	} {
		for _, path := range []string{limitsOf("g"), queueLimits} {
			got := ask[api.Error](c.loose(), put(path, body))
			require.Equal(t, http.StatusBadRequest, got.Status, body)
			require.Contains(t, got.failure, want, body)
			require.Less(t, len(got.failure), 400, body)
		}
		_, err := conn.Exec(t.Context(), `SELECT belfry.limit_group('q', 'g', $1)`, body)
		require.ErrorContains(t, err, strings.Split(want, ":")[0], body)
	}
	require.Nil(t, c.showLimits("g").Limits)
}

// GET of a queue lists the groups with limits of their own, page by page.
func TestTheLimitsOfAQueueAreListed(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	c.pushIDs("q", "p", "1")
	for _, group := range []string{"b", "a", "c"} {
		c.setLimits(limitsOf(group), `{"concurrency":1}`)
	}
	c.setLimits(queueLimits, `{"concurrency":9}`)
	first := ask[api.QueueLimits](c, get(queueLimits+"?limit=2")).ok(http.StatusOK)
	require.Equal(t, []any{int64(9), "a", "b", "b"}, []any{first.Limits.Concurrency, first.Groups[0].ConsumerGroup, first.Groups[1].ConsumerGroup, *first.Pagination.Next})
	next := ask[api.QueueLimits](c, get(queueLimits+"?limit=2&cursor=b")).ok(http.StatusOK)
	require.Equal(t, []api.OwnLimits{{ConsumerGroup: "c", Limits: api.Limits{Concurrency: 1}}}, next.Groups)
	require.Nil(t, next.Pagination.Next)
	last := ask[api.QueueLimits](c, get(queueLimits+"?cursor=c")).ok(http.StatusOK)
	require.Empty(t, last.Groups)
}

// The limits of a group stay when the group is deleted, and hold for a new group of this name, also if its start was kept. The limits of
// a queue are deleted with it. The places and buckets of both are deleted too.
func TestLimitsOfADeletedGroup(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := s.client(t)
	c.pushIDs("q", "1", "1")
	c.pushIDs("q", "2", "2")
	rows := func() (n int) {
		s.scan(t, `SELECT (SELECT count(*) FROM belfry.limit_slot) + (SELECT count(*) FROM belfry.limit_bucket) + (SELECT count(*) FROM belfry.limit_number)`, nil, &n)
		return n
	}
	c.setLimits(queueLimits, `{"concurrency":2}`)
	c.setLimits(limitsOf("g"), `{"concurrency":1,"rateLimit":{"messages":5,"per":"1h"}}`)
	for _, query := range []string{"deleteMetadata=false", "deleteMetadata=true"} {
		c.pop("q", "consumerGroup=g&subscriptionMode=timestamp&subscriptionFrom=2026-01-01T00:00:00Z").ok(http.StatusOK)
		require.Equal(t, http.StatusNoContent, c.pop("q", "consumerGroup=g").Status)
		require.Equal(t, 4, rows())
		c.deleteGroup("g", "?"+query)
		until(t, "the rows of the group are deleted", func() bool { return rows() == 0 })
	}
	c.pop("q", "consumerGroup=g&subscriptionMode=all").ok(http.StatusOK)
	require.Equal(t, http.StatusNoContent, c.pop("q", "consumerGroup=g").Status)
	c.deleteQueue("q")
	until(t, "the rows of the queue are deleted", func() bool {
		var limits int
		s.scan(t, `SELECT count(*) FROM belfry.group_limit`, nil, &limits)
		return rows()+limits == 0
	})
	c.pushIDs("q", "1", "1")
	require.Nil(t, c.showLimits("g").Limits)
}

// belfry.limit_group does the same as the routes, in the transaction of the caller. Its changes are in the audit. The commit wakes a
// waiting pop on every instance.
func TestLimitsInSQL(t *testing.T) {
	t.Parallel()
	s := start(t, proven)
	s.untilProven(t, 0)
	c, conn := s.client(t), producer(t, s.dsn)
	c.pushIDs("q", "1", "1")
	c.pushIDs("q", "2", "2")
	changed := func(of any, to any) (changed bool) {
		t.Helper()
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT belfry.limit_group('q', $1, $2)`, of, to).Scan(&changed))
		return changed
	}
	require.True(t, changed("g", `{"concurrency":1}`))
	require.False(t, changed("g", `{"concurrency":1}`))
	require.True(t, changed(nil, `{"concurrency":2}`))
	require.False(t, changed("", `{"concurrency":2}`))
	require.Equal(t, "group", *c.showLimits("g").Source)
	require.Equal(t, "queue", *c.showLimits("other").Source)
	c.pop("q", "consumerGroup=g&subscriptionMode=all").ok(http.StatusOK)
	waiting := c.begin(popCall("q", "consumerGroup=g&wait=true&timeout=30000"))
	c.untilWaiting(1)
	require.True(t, changed("g", nil))
	require.False(t, changed("g", nil))
	require.Len(t, waiting.delivery().ok(http.StatusOK).ids(), 1)
	require.Equal(t, []string{"limits.remove q/g", "limits.remove q/g", "limits.set q/", "limits.set q/", "limits.set q/g", "limits.set q/g"}, c.limitChanges())

	_, err := conn.Exec(t.Context(), `SELECT belfry.limit_group('nowhere', 'g', '{}')`)
	require.ErrorContains(t, err, "queue 'nowhere' does not exist")
	_, err = conn.Exec(t.Context(), `SELECT belfry.limit_group('q', '..', '{}')`)
	require.ErrorContains(t, err, "name of the consumer group")
	_, err = conn.Exec(t.Context(), `BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT belfry.limit_group('q', 'g', '{}')`)
	require.ErrorContains(t, err, "REPEATABLE READ")
}

// A pop that waits because of the limits gets a message as soon as another request changes the limits, on every instance.
func TestAChangeOfLimitsWakesWaitingPops(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	here, there := startOn(t, dsn, proven), startOn(t, dsn, proven)
	here.untilProven(t, 1)
	there.untilProven(t, 1)
	for _, c := range []client{here.client(t), there.client(t)} {
		q := "q" + c.base[len(c.base)-5:]
		path := groupsPath + "/g/queues/" + q + "/limits"
		c.pushIDs(q, "p", "1", "2")
		c.setLimits(path, `{"rateLimit":{"messages":1,"per":"24h"}}`)
		require.Equal(t, []string{"1"}, c.popIDs(q, "consumerGroup=g&subscriptionMode=all&autoAck=true"))
		waiting := here.client(t).begin(popCall(q, "consumerGroup=g&wait=true&timeout=30000"))
		here.client(t).untilWaiting(1)
		ask[api.LimitsSet](c, remove(path)).ok(http.StatusOK)
		require.Equal(t, []string{"2"}, waiting.delivery().ok(http.StatusOK).ids())
	}
}

// A change of limits can be undone, until another change follows.
func TestLimitsAreUndone(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	c.pushIDs("q", "p", "1")
	undo := func() string { return "/api/v1/audit/" + c.audit("limit=1").Entries[0].ID + "/undo" }
	c.setLimits(limitsOf("g"), `{"concurrency":5}`)
	first := undo()
	c.setLimits(limitsOf("g"), `{"concurrency":8,"onExhausted":"skip"}`)
	second := undo()
	for _, call := range []call{get(first), post(first, "")} {
		refused := ask[json.RawMessage](c.loose(), call)
		require.Equal(t, http.StatusConflict, refused.Status)
		require.Contains(t, string(refused.Raw), "the limits were changed again since")
	}
	want := []api.UndoneValue{{Name: "limits", Now: json.RawMessage(`{"concurrency":8,"onExhausted":"skip"}`), Then: json.RawMessage(`{"concurrency":5}`)}}
	require.Equal(t, want, ask[api.Undo](c, get(second)).ok(http.StatusOK).Values)
	require.Equal(t, want, ask[api.Undo](c, post(second, "")).ok(http.StatusOK).Values)
	require.Equal(t, int64(5), c.showLimits("g").Limits.Concurrency)
	done := ask[api.Undo](c, post(first, "")).ok(http.StatusOK)
	require.Equal(t, []any{"limits.remove", "null"}, []any{done.UndoAction, string(done.Values[0].Then)})
	require.Nil(t, c.showLimits("g").Limits)

	c.exec(`SELECT belfry.limit_group('q', NULL, '{"concurrency":3}')`)
	ask[api.Undo](c, post(undo(), "")).ok(http.StatusOK)
	require.Nil(t, c.showLimits("g").Limits, "a change in SQL is undone too")
}

// A change of the rate empties the bucket, also if its number of parts changes. So repeated changes deliver no burst. When the number
// grows again, each part has its row.
func TestAChangeOfTheRateAllowsNoBurst(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	var ids []string
	for range 400 {
		ids = append(ids, strconv.Itoa(len(ids)))
	}
	c.pushIDs("q", "p", ids...)
	delivered := func() int {
		got := c.pop("q", "consumerGroup=g&subscriptionMode=all&autoAck=true&batch=400")
		if got.Status == http.StatusNoContent {
			return 0
		}
		return len(got.ok(http.StatusOK).ids())
	}
	c.setLimits(limitsOf("g"), `{"rateLimit":{"messages":1,"per":"1h","burst":20}}`)
	require.Equal(t, 20, delivered())
	for _, burst := range []string{"160", "10", "130", "20"} {
		c.setLimits(limitsOf("g"), `{"rateLimit":{"messages":1,"per":"1h","burst":`+burst+`}}`)
		require.Zero(t, *c.showLimits("g").Use.Tokens)
		require.Zero(t, delivered(), "the burst is %s now", burst)
	}
	ask[api.LimitsSet](c, remove(limitsOf("g"))).ok(http.StatusOK)
	c.setLimits(limitsOf("g"), `{"rateLimit":{"messages":160,"per":"24h"}}`)
	require.Zero(t, delivered())
	c.exec(`UPDATE belfry.limit_bucket SET full_at = now()`)
	require.Equal(t, int64(160), *c.showLimits("g").Use.Tokens)
	require.Equal(t, 160, delivered())
}
