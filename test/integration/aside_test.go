package integration_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type attachmentPage struct {
	Attachments []struct {
		Table, Queue string
		Complete     bool
		Failures     int
		LastFailure  *string
	}
}

type rejectedPage struct {
	Rows []struct {
		ID, Code, Reason                string
		Queue, Partition, TransactionID *string
		Excerpt                         *string
	}
	Examined   int
	Pagination struct{ Next *string }
}

type retried struct {
	Retried, Discarded int
	More               bool
}

// plantRejected adds a rejected row for each code. The ids start at 1001.
func (c client) plantRejected(queue, payload string, codes ...string) {
	c.t.Helper()
	var n int
	for _, code := range codes {
		encoded, _ := json.Marshal(payload)
		c.scan(c.t, `WITH r AS (INSERT INTO belfry.inbox_rejected (id, queue, partition, payload, inserted_at, code, reason)
			SELECT coalesce(max(id), 1000) + 1, $1, 'p', $2::json, now(), $3, 'a reason' FROM belfry.inbox_rejected RETURNING 1) SELECT count(*) FROM r`,
			[]any{queue, string(encoded), code}, &n)
	}
}

// The API must list a row that the sequencer rejected, with the reason. After a retry, a consumer must receive it.
func TestRejectedRowsCanBeRetried(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	c.configure("small", map[string]any{"maxSize": 1}).ok(http.StatusOK)
	conn := producer(t, c.dsn)
	execute(t, conn, `INSERT INTO belfry.inbox (queue, payload, transaction_id) SELECT 'small', to_json(i), i FROM generate_series(1, 3) AS i`)
	list := func(query string) rejectedPage {
		return ask[rejectedPage](c, get("/api/v1/inbox/rejected?"+query)).ok(http.StatusOK)
	}
	until(t, "two rows are rejected", func() bool { return len(list("").Rows) == 2 })
	rows := list("queue=small&code=queue_full&limit=1")
	require.Len(t, rows.Rows, 1)
	require.Equal(t, "3 3", *rows.Rows[0].TransactionID+" "+*rows.Rows[0].Excerpt, "the newest row must be the first")
	require.Contains(t, rows.Rows[0].Reason, "maxSize")
	second := list("queue=small&limit=1&cursor=" + *rows.Pagination.Next).Rows
	require.Equal(t, "2", *second[0].TransactionID)
	require.Empty(t, list("queue=other").Rows)

	c.configure("small", map[string]any{"maxSize": 10}).ok(http.StatusOK)
	retry := func(body string) retried {
		return ask[retried](c, post("/api/v1/inbox/rejected/retry", body)).ok(http.StatusOK)
	}
	one := fmt.Sprintf(`{"id":%q,"queue":"small"}`, second[0].ID)
	require.Equal(t, retried{Retried: 1}, retry(one))
	require.Equal(t, retried{}, retry(one), "a second retry must find no row")
	until(t, "the rows are stored", func() (stored bool) { // the instance learns the new option a moment later
		retry(`{"all":true}`)
		c.scan(t, `SELECT count(*) = 3 FROM belfry.message`, nil, &stored)
		return stored
	})
	require.ElementsMatch(t, []string{"1", "2", "3"}, c.pop("small", "batch=10").ok(http.StatusOK).ids())
	c.plantRejected("small", "x", "invalid", "queue_full")
	require.Equal(t, retried{Discarded: 1}, ask[retried](c, remove("/api/v1/inbox/rejected?queue=small&code=invalid")).ok(http.StatusOK))
	require.Equal(t, "queue_full", list("").Rows[0].Code)
}

func TestAttachmentsAreListedWithFailures(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	conn := producer(t, c.dsn)
	execute(t, conn, `CREATE TABLE public.orders (id int); ALTER TABLE belfry.inbox ADD CONSTRAINT broken CHECK (queue <> 'bad')`)
	execute(t, conn, `SELECT belfry.attach('public.orders', 'good'), belfry.attach('public.orders', 'bad')`)
	execute(t, conn, `INSERT INTO public.orders VALUES (1)`)
	found := ask[attachmentPage](c, get("/api/v1/attachments")).ok(http.StatusOK).Attachments
	require.Len(t, found, 2)
	require.Equal(t, "public.orders good true 0", fmt.Sprint(found[0].Table, " ", found[0].Queue, " ", found[0].Complete, " ", found[0].Failures))
	require.Equal(t, 1, found[1].Failures)
	require.Contains(t, *found[1].LastFailure, "broken")
	execute(t, conn, `ALTER TABLE public.orders DISABLE TRIGGER ALL`)
	require.False(t, ask[attachmentPage](c, get("/api/v1/attachments")).ok(http.StatusOK).Attachments[0].Complete)
}

type summary struct {
	Examined, Matched int
	Next              *string
	Errors            []struct {
		ErrorMessage string
		Count        int
	}
	Messages   []letter
	Pagination struct{ Next *string }
}

// A streamed redrive must report progress, keep its rate, and stop when the client disconnects. The same request must
// continue it. The audit must have the number of redriven dead letters.
func TestARedriveWithProgressStopsWithItsConnection(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	items := make([]item, 50)
	for i := range items {
		items[i] = item{Queue: "q", Partition: "p", TransactionID: strconv.Itoa(i), Payload: json.RawMessage("1")}
	}
	c.push(items...).ok(http.StatusCreated)
	c.deadLetterAll("q", "g")
	counted := ask[summary](c, get("/api/v1/dlq/summary?queue=q&consumerGroup=g&limit=5")).ok(http.StatusOK)
	require.Equal(t, []int{50, 50, 5, 50}, []int{counted.Examined, counted.Matched, len(counted.Messages), counted.Errors[0].Count})
	require.NotNil(t, counted.Pagination.Next)
	rest := ask[summary](c, get("/api/v1/dlq/summary?queue=q&consumerGroup=g&limit=100&cursor="+*counted.Pagination.Next)).ok(http.StatusOK)
	require.Len(t, rest.Messages, 45)
	require.Nil(t, rest.Pagination.Next)

	began := time.Now()
	redrive := c.openStream(t, post("/api/v1/dlq/redrive/stream", `{"queue":"q","consumerGroup":"g","all":true,"rate":2}`))
	redrive.until("progress", `{"matched":50,"redriven":2,"skipped":0,"remaining":48}`)
	redrive.until("progress", `"redriven":4`)
	require.Greater(t, time.Since(began), 900*time.Millisecond, "the redrive must keep its rate")
	redrive.close()
	redrive.untilEnd()
	var entry auditEntry
	until(t, "the audit entry says that the redrive was canceled", func() bool {
		found := c.audit("action=dead_letters.redrive").Entries
		entry = found[0]
		return entry.Result == "canceled"
	})
	var counts struct{ DeadLetters int }
	require.NoError(t, json.Unmarshal(entry.Counts, &counts))
	require.GreaterOrEqual(t, counts.DeadLetters, 4)
	require.Less(t, counts.DeadLetters, 50)
	require.Equal(t, 50-counts.DeadLetters, c.dlq("queue=q").Total, "the remaining dead letters must stay")

	all := c.openStream(t, post("/api/v1/dlq/redrive/stream", `{"queue":"q","consumerGroup":"g","all":true}`))
	all.until("closing", fmt.Sprintf(`{"matched":%d,"redriven":%[1]d,"skipped":0,"remaining":0,"reason":"done"}`, 50-counts.DeadLetters))
	require.Empty(t, all.untilEnd())
	require.Zero(t, c.dlq("queue=q").Total)
}

// asideProbes adds the probes of the routes about dead letters, attachments and rejected rows.
func asideProbes(o place, probes map[string][]call) map[string][]call {
	schedule := "/api/v1/schedules/" + o.queue
	breaker := "/api/v1/consumer-groups/" + o.group + "/queues/" + o.queue + "/breaker"
	ofGroup, ofQueue := "/api/v1/consumer-groups/"+o.group+"/queues/"+o.queue+"/limits", "/api/v1/resources/queues/"+o.queue+"/limits"
	letter := "/api/v1/messages/" + o.partition + "/" + o.message + "/dlq"
	maps.Copy(probes, map[string][]call{
		"DELETE /api/v1/messages/{partitionId}/{transactionId}/dlq": {remove(letter), remove(letter + "?consumerGroup=" + o.group)},
		"PATCH /api/v1/messages/{partitionId}/{transactionId}":      {{Method: http.MethodPatch, Target: strings.TrimSuffix(letter, "/dlq"), Body: `{"delaySeconds":60}`}},
		"GET /api/v1/dlq":        {get("/api/v1/dlq"), get("/api/v1/dlq?queue=" + o.queue), get("/api/v1/dlq?consumerGroup=" + o.group)},
		"DELETE /api/v1/dlq":     {remove("/api/v1/dlq?queue=" + o.queue), remove("/api/v1/dlq?dryRun=true&queue=" + o.queue)},
		"GET /api/v1/dlq/count":  {get("/api/v1/dlq/count?queue=" + o.queue), get("/api/v1/dlq/count?queue=" + o.queue + "&consumerGroup=" + o.group)},
		"POST /api/v1/dlq/purge": {post("/api/v1/dlq/purge?queue="+o.queue, "")},
		"POST /api/v1/dlq/redrive": {post("/api/v1/dlq/redrive", fmt.Sprintf(`{"queue":%q,"consumerGroup":%q,"all":true}`, o.queue, o.group)),
			post("/api/v1/dlq/redrive", fmt.Sprintf(`{"queue":"a.one","consumerGroup":"g","all":true,"toQueue":%q}`, o.queue))},
		"GET /api/v1/dlq/summary":                                                            {get("/api/v1/dlq/summary"), get("/api/v1/dlq/summary?queue=" + o.queue), get("/api/v1/dlq/summary?consumerGroup=" + o.group)},
		"POST /api/v1/dlq/redrive/stream":                                                    {post("/api/v1/dlq/redrive/stream", fmt.Sprintf(`{"queue":%q,"consumerGroup":%q,"partition":"nowhere"}`, o.queue, o.group))},
		"GET /api/v1/dlq/jobs":                                                               {get("/api/v1/dlq/jobs")},
		"POST /api/v1/dlq/jobs":                                                              {post("/api/v1/dlq/jobs", fmt.Sprintf(`{"queue":%q,"consumerGroup":%q,"partition":"nowhere"}`, o.queue, o.group))},
		"POST /api/v1/dlq/jobs/{id}/stop":                                                    {post("/api/v1/dlq/jobs/"+nobody+"/stop", "")},
		"GET /api/v1/audit/{id}/undo":                                                        {get("/api/v1/audit/" + nobody + "/undo")},
		"POST /api/v1/audit/{id}/undo":                                                       {post("/api/v1/audit/"+nobody+"/undo", "")},
		"GET /api/v1/pauses":                                                                 {get("/api/v1/pauses"), get("/api/v1/pauses?queue=" + o.queue)},
		"GET /api/v1/attachments":                                                            {get("/api/v1/attachments")},
		"GET /api/v1/inbox/rejected":                                                         {get("/api/v1/inbox/rejected"), get("/api/v1/inbox/rejected?queue=" + o.queue)},
		"DELETE /api/v1/inbox/rejected":                                                      {remove("/api/v1/inbox/rejected?queue=" + o.queue)},
		"GET /api/v1/rights":                                                                 {get("/api/v1/rights")},
		"POST /api/v1/tokens":                                                                {post("/api/v1/tokens", fmt.Sprintf(`{"subject":"s","role":"admin","ttlSeconds":60,"grants":{"queues":[%q]}}`, o.queue))},
		"POST /api/v1/tokens/revoke":                                                         {post("/api/v1/tokens/revoke", `{"id":"nothing"}`)},
		"POST /api/v1/sql-grants":                                                            {post("/api/v1/sql-grants", fmt.Sprintf(`{"kind":"push","role":"postgres","queue":%q}`, o.queue))},
		"POST /api/v1/sql-grants/revoke":                                                     {post("/api/v1/sql-grants/revoke", fmt.Sprintf(`{"kind":"push","role":"postgres","queue":%q}`, o.queue))},
		"GET /api/v1/scale/{queue}/{group}":                                                  {get("/api/v1/scale/" + o.queue + "/" + o.group)},
		"GET /api/v1/schedules":                                                              {get("/api/v1/schedules"), get("/api/v1/schedules?queue=" + o.queue), get("/api/v1/schedules?name=" + o.queue)},
		"GET /api/v1/schedules/{name}":                                                       {get(schedule)},
		"GET /api/v1/schedules/{name}/next":                                                  {get(schedule + "/next")},
		"PUT /api/v1/schedules/{name}":                                                       {put(schedule, fmt.Sprintf(`{"queue":%q,"every":"24h","payload":1}`, o.queue)), put(schedule+"?dryRun=true", fmt.Sprintf(`{"queue":%q,"every":"24h","payload":1}`, o.queue))},
		"DELETE /api/v1/schedules/{name}":                                                    {remove(schedule)},
		"POST /api/v1/schedules/{name}/run":                                                  {post(schedule+"/run", "")},
		"POST /api/v1/schedules/{name}/pause":                                                {post(schedule+"/pause", "")},
		"POST /api/v1/schedules/{name}/resume":                                               {post(schedule+"/resume", "")},
		"GET /api/v1/consumer-groups/{group}/queues/{queue}/limits":                          {get(ofGroup)},
		"PUT /api/v1/consumer-groups/{group}/queues/{queue}/limits":                          {put(ofGroup, `{"concurrency":9}`), put(ofGroup+"?dryRun=true", `{"concurrency":8}`)},
		"DELETE /api/v1/consumer-groups/{group}/queues/{queue}/limits":                       {remove(ofGroup), remove(ofGroup + "?dryRun=true")},
		"GET /api/v1/resources/queues/{queue}/limits":                                        {get(ofQueue)},
		"PUT /api/v1/resources/queues/{queue}/limits":                                        {put(ofQueue, `{"concurrency":9}`), put(ofQueue+"?dryRun=true", `{"concurrency":8}`)},
		"DELETE /api/v1/resources/queues/{queue}/limits":                                     {remove(ofQueue), remove(ofQueue + "?dryRun=true")},
		"GET /api/v1/consumer-groups/{group}/queues/{queue}/breaker":                         {get(breaker)},
		"POST /api/v1/consumer-groups/{group}/queues/{queue}/breaker/open":                   {post(breaker+"/open", `{"pause":"1ms"}`)},
		"POST /api/v1/consumer-groups/{group}/queues/{queue}/breaker/close":                  {post(breaker+"/close", "")},
		"GET /api/v1/consumer-groups/{group}/queues/{queue}/blocked":                         {get(strings.TrimSuffix(breaker, "breaker") + "blocked")},
		"POST /api/v1/consumer-groups/{group}/queues/{queue}/partitions/{partition}/unblock": {post(strings.TrimSuffix(breaker, "breaker")+"partitions/p/unblock", `{"action":"skip"}`)},
		"POST /api/v1/inbox/rejected/retry":                                                  {post("/api/v1/inbox/rejected/retry", fmt.Sprintf(`{"queue":%q}`, o.queue))},
	})
	return probes
}

// fillAside adds a rejected row, an attached table and a schedule to the queue of a place.
func (s tenancy) fillAside(o *place) {
	s.t.Helper()
	s.plantRejected(o.queue, "", "queue_full")
	s.do(put("/api/v1/schedules/"+o.queue, fmt.Sprintf(`{"queue":%q,"every":"24h","payload":1}`, o.queue)))
	table, conn := strings.ReplaceAll(o.queue, ".", "_"), producer(s.t, s.dsn)
	execute(s.t, conn, fmt.Sprintf(`CREATE TABLE public.%s (id int)`, table))
	execute(s.t, conn, fmt.Sprintf(`SELECT belfry.attach('public.%s', '%s')`, table, o.queue))
}

// administers matches the routes that only a token without grants may call.
var administers = regexp.MustCompile(`/api/v1/(system/|rights|tokens|sql-grants)`)
