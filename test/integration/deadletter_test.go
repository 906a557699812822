package integration_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type letter struct {
	ID            string
	TransactionID string
	PartitionID   string
	Queue         string
	Partition     string
	ConsumerGroup string
	ErrorMessage  string
	RetryCount    int
	Data          any
	CreatedAt     string
	FailedAt      string
}

type letters struct {
	Messages   []letter
	Total      int
	Pagination struct {
		Limit, Offset int
		Next          *string
	}
}

func (l letters) ids() []string {
	out := make([]string, len(l.Messages))
	for i, m := range l.Messages {
		out[i] = m.TransactionID
	}
	return out
}

type redriven struct {
	Success                                       bool
	DryRun                                        bool
	Matched, Redriven, Skipped, Remaining, Purged int
}

func (c client) dlq(query string) letters {
	c.t.Helper()
	return ask[letters](c, get("/api/v1/dlq?"+query)).ok(http.StatusOK)
}

func (c client) redrive(body string) redriven {
	c.t.Helper()
	return ask[redriven](c, post("/api/v1/dlq/redrive", body)).ok(http.StatusOK)
}

func (c client) redriveAll(queue, group string) redriven {
	c.t.Helper()
	return c.redrive(fmt.Sprintf(`{"queue":%q,"consumerGroup":%q,"all":true}`, queue, group))
}

// deadLetterAll pops all available messages and makes them dead letters.
func (c client) deadLetterAll(queue, group string) delivery {
	c.t.Helper()
	d := c.pop(queue, "batch=10000&partitions=100&consumerGroup="+url.QueryEscape(group)).ok(http.StatusOK)
	for _, one := range c.ackBatch(group, d.ack("dlq")...).ok(http.StatusOK) {
		require.True(c.t, one.DLQ, "%+v", one)
	}
	return d
}

func escaped(name string) string { return url.PathEscape(name) }

func messagePath(m letter, rest string) string {
	return "/api/v1/messages/" + m.PartitionID + "/" + escaped(m.TransactionID) + rest
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, run := range map[string]func(t *testing.T, c client, queue string){
		"filters":                           lettersFilters,
		"pages":                             lettersPages,
		"redrive with a rate and a dry run": redriveRate,
		"redrive without a group":           redriveWithoutGroup,
		"purge":                             lettersPurge,
		"one message to the dead letters and back": lettersMoved,
		"redrive of many, to a slow consumer":      redriveMany,
		"names with ü, / and %":                    lettersUnicode,
		"redrive to another queue":                 lettersToAnotherQueue,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, s.client(t), t.Name())
		})
	}
}

func lettersFilters(t *testing.T, c client, queue string) {
	q := "queue=" + url.QueryEscape(queue)
	require.Empty(t, c.dlq(q).Messages)
	for _, id := range []string{"1", "2", "3"} {
		c.pushIDs(queue, "p", id)
		c.pushIDs(queue, "o", "o"+id)
		c.deadLetterAll(queue, "a")
	}
	c.deadLetterAll(queue, "b")
	require.Equal(t, 12, c.dlq(q).Total)
	all := c.dlq(q + "&consumerGroup=a")
	require.Equal(t, 6, all.Total)
	require.True(t, slices.IsSortedFunc(all.Messages, func(a, b letter) int { return strings.Compare(b.FailedAt, a.FailedAt) }), "the newest dead letter must be the first")
	of := c.dlq(q + "&consumerGroup=a&partition=o")
	require.Equal(t, []string{"o3", "o2", "o1"}, of.ids())
	require.Equal(t, []string{"o2"}, c.dlq(q+"&consumerGroup=a&partition=o&limit=1&offset=1").ids())
	require.Equal(t, 3, of.Total)
	require.Equal(t, []string{"2"}, c.dlq(q+"&consumerGroup=a&transactionId=2").ids())
	one := c.dlq(q + "&consumerGroup=a&transactionId=2").Messages[0]
	require.Equal(t, []string{queue, "p", "a", "Retries exhausted"}, []string{one.Queue, one.Partition, one.ConsumerGroup, one.ErrorMessage})
	requireUUID(t, one.ID, one.PartitionID)
	at := url.QueryEscape(of.Messages[1].FailedAt)
	later, err := time.Parse(time.RFC3339, of.Messages[1].FailedAt)
	require.NoError(t, err)
	until := url.QueryEscape(later.Add(time.Millisecond).Format(time.RFC3339Nano))
	require.Equal(t, []string{"o3", "o2"}, c.dlq(q+"&consumerGroup=a&partition=o&from="+at).ids())
	require.Equal(t, []string{"o2", "o1"}, c.dlq(q+"&consumerGroup=a&partition=o&to="+until).ids())
	require.Empty(t, c.dlq(q+"&consumerGroup=a&to="+url.QueryEscape(all.Messages[5].CreatedAt)).ids())
	require.Empty(t, c.dlq(q+"&consumerGroup=a&from=2100-01-01").ids())
	require.Zero(t, c.dlq(q+"&partition=none").Total)
	require.Zero(t, c.dlq("queue=none").Total)
}

func lettersPages(t *testing.T, c client, queue string) {
	const n = 2500
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("%04d", i)
	}
	c.pushIDs(queue, "p", ids...)
	c.deadLetterAll(queue, "g")
	q := "queue=" + url.QueryEscape(queue) + "&consumerGroup=g"
	var seen []string
	pages := 0
	for cursor := ""; ; pages++ {
		got := c.dlq(q + "&limit=1000&cursor=" + cursor)
		require.Equal(t, n, got.Total)
		seen = append(seen, got.ids()...)
		if got.Pagination.Next == nil {
			break
		}
		cursor = *got.Pagination.Next
	}
	require.Equal(t, 2, pages)
	slices.Reverse(seen)
	require.Equal(t, ids, seen, "the pages must list each dead letter once")
	require.Equal(t, []string{"0000"}, c.dlq(fmt.Sprintf("%s&offset=%d", q, n-1)).ids())
	require.Len(t, c.dlq(q+"&limit=9999").Messages, 1000, "the limit must be at most 1000")
}

func redriveRate(t *testing.T, c client, queue string) {
	c.pushIDs(queue, "p", "1", "2", "3", "4", "5")
	c.deadLetterAll(queue, "g")
	body := func(rest string) string {
		return fmt.Sprintf(`{"queue":%q,"consumerGroup":"g","all":true,%s}`, queue, rest)
	}
	require.Equal(t, redriven{Success: true, DryRun: true, Matched: 5, Remaining: 5}, c.redrive(body(`"dryRun":true`)))
	require.Equal(t, 5, c.dlq("queue="+url.QueryEscape(queue)).Total)
	began := time.Now()
	require.Equal(t, redriven{Success: true, Matched: 5, Redriven: 5}, c.redrive(body(`"rate":4`)))
	require.GreaterOrEqual(t, time.Since(began), 950*time.Millisecond, "the rate allows 4 at once, and 1 a second later")
}

func redriveWithoutGroup(t *testing.T, c client, queue string) {
	c.pushIDs(queue, "p", "1", "2")
	c.deadLetterAll(queue, "g")
	var gone int
	c.scan(t, `WITH gone AS (DELETE FROM belfry.cursor c USING belfry.consumer_group g, belfry.queue q
		WHERE c.group_id = g.id AND g.queue_id = q.id AND q.name = $1 RETURNING 1) SELECT count(*) FROM gone`, []any{queue}, &gone)
	require.Equal(t, 1, gone)
	require.Equal(t, redriven{Success: true, Matched: 2, Skipped: 2}, c.redriveAll(queue, "g"), "without a cursor, the dead letters must stay")
	require.Equal(t, 2, c.dlq("queue="+url.QueryEscape(queue)).Total)
	c.scan(t, `WITH gone AS (DELETE FROM belfry.consumer_group g USING belfry.queue q
		WHERE g.queue_id = q.id AND q.name = $1 RETURNING 1) SELECT count(*) FROM gone`, []any{queue}, &gone)
	require.Equal(t, 1, gone)
	require.Equal(t, redriven{Success: true}, c.redriveAll(queue, "g"))
	require.Zero(t, c.dlq("queue="+url.QueryEscape(queue)).Total)
}

func lettersPurge(t *testing.T, c client, queue string) {
	c.pushIDs(queue, "p", "1", "2")
	c.pushIDs(queue, "o", "3")
	c.deadLetterAll(queue, "g")
	purge := func(rest string) redriven {
		return ask[redriven](c, remove("/api/v1/dlq?queue="+url.QueryEscape(queue)+rest)).ok(http.StatusOK)
	}
	require.Equal(t, redriven{Success: true, DryRun: true, Matched: 3, Remaining: 3}, purge("&dryRun=true"))
	require.Zero(t, purge("&consumerGroup=other").Purged)
	require.Equal(t, redriven{Success: true, Matched: 1, Purged: 1}, purge("&partition=o"))
	require.Equal(t, redriven{Success: true, Matched: 2, Purged: 2}, purge("&consumerGroup=g"))
	require.Zero(t, c.dlq("queue="+url.QueryEscape(queue)).Total)
	require.Empty(t, c.popIDs(queue, "consumerGroup=g&batch=9"), "purged messages must stay consumed")
}

func lettersMoved(t *testing.T, c client, queue string) {
	stored := c.pushIDs(queue, "p", "1", "2")
	m := letter{PartitionID: stored[0].PartitionID, TransactionID: "2"}
	post := func(path, body string) reply { return ask[any](c, post(path, body)).reply }
	require.Equal(t, http.StatusNotFound, post(messagePath(m, "/dlq"), `{"consumerGroup":"g"}`).Status, "a group that does not exist must give 404")
	require.Empty(t, c.dlq("queue="+url.QueryEscape(queue)).Messages)
	held := c.pop(queue, "consumerGroup=g&batch=9").ok(http.StatusOK)
	require.Equal(t, http.StatusOK, post(messagePath(m, "/dlq"), `{"consumerGroup":"g","error":"by hand"}`).Status)
	require.Equal(t, "by hand", c.dlq("queue=" + url.QueryEscape(queue)).Messages[0].ErrorMessage)
	require.True(t, *c.ackBatch("g", held.ack("completed")[0]).ok(http.StatusOK)[0].LeaseReleased, "the lease must end, because no other message of it is unfinished")
	require.Empty(t, c.popIDs(queue, "consumerGroup=g"))
	require.Equal(t, http.StatusNotFound, post(messagePath(m, "/retry"), `{"consumerGroup":"other"}`).Status)
	require.Equal(t, http.StatusOK, post(messagePath(m, "/retry"), "").Status)
	require.Equal(t, []string{"2"}, c.popIDs(queue, "consumerGroup=g"))
	require.Equal(t, http.StatusNotFound, post(messagePath(m, "/retry"), "").Status, "a message that is no dead letter must give 404")
	m.TransactionID = "none"
	require.Equal(t, http.StatusNotFound, post(messagePath(m, "/dlq"), "").Status)
	require.Equal(t, http.StatusNotFound, post(messagePath(m, "/retry"), "").Status)
}

func redriveMany(t *testing.T, c client, queue string) {
	const n = 2300
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("%04d", i)
	}
	c.pushIDs(queue, "p", ids...)
	c.deadLetterAll(queue, "g")
	require.Equal(t, redriven{Success: true, Matched: n, Redriven: n}, c.redriveAll(queue, "g"))
	var got []string
	for len(got) < n {
		d := c.pop(queue, "batch=500&consumerGroup=g").ok(http.StatusOK)
		got = append(got, d.ids()...)
		answers := c.ackBatch("g", d.ack("completed")...).ok(http.StatusOK)
		require.True(t, *answers[len(answers)-1].LeaseReleased)
	}
	require.Equal(t, ids, got)
	require.Empty(t, c.popIDs(queue, "batch=500&consumerGroup=g"))
}

func lettersUnicode(t *testing.T, c client, queue string) {
	group, id := "grüppe %/+", "trans/ü %2F+"
	c.pushIDs(queue, "päärt/%", id)
	d := c.popPartition(queue, "päärt/%", "consumerGroup="+url.QueryEscape(group)).ok(http.StatusOK)
	require.True(t, c.ackBatch(group, d.ack("dlq")...).ok(http.StatusOK)[0].DLQ)
	m := c.dlq("consumerGroup=" + url.QueryEscape(group) + "&partition=" + url.QueryEscape("päärt/%") + "&queue=" + url.QueryEscape(queue)).Messages
	require.Len(t, m, 1)
	require.Equal(t, id, m[0].TransactionID)
	shown := ask[map[string]any](c, get(messagePath(m[0], ""))).ok(http.StatusOK)
	require.Equal(t, "dead_letter", shown["status"])
	require.Equal(t, queue+"/päärt/%", shown["queuePath"])
	ask[any](c, post(messagePath(m[0], "/retry"), fmt.Sprintf(`{"consumerGroup":%q}`, group))).ok(http.StatusOK)
	require.Equal(t, []string{id}, c.popIDs(queue, "consumerGroup="+url.QueryEscape(group)))
}

// A dead letter that is moved to another queue must be delivered there once, with its payload and trace id. Its group must
// not receive it again in the first queue.
func lettersToAnotherQueue(t *testing.T, c client, queue string) {
	target := queue + ".parked"
	move := fmt.Sprintf(`{"queue":%q,"consumerGroup":"g","all":true,"toQueue":%q}`, queue, target)
	const payload, trace = `{"b":1.0,"a":[]}`, "0198f9a0-6f1c-7b52-8f6b-2f6c3a1d4e5f"
	c.push(item{Queue: queue, Partition: "p", TransactionID: "1", Payload: json.RawMessage(payload), TraceID: trace}).ok(http.StatusCreated)
	c.pushIDs(queue, "p", "2", "3")
	c.deadLetterAll(queue, "g")
	ask[any](c, post("/api/v1/dlq/redrive", move)).ok(http.StatusNotFound)
	c.configure(target, nil).ok(http.StatusOK)
	c.pushIDs(target, "p", "3")
	require.Equal(t, redriven{Success: true, DryRun: true, Matched: 3, Remaining: 3}, c.redrive(strings.Replace(move, "{", `{"dryRun":true,`, 1)))
	require.Equal(t, redriven{Success: true, Matched: 3, Redriven: 3}, c.redrive(move))
	require.Zero(t, c.dlq("queue="+url.QueryEscape(queue)).Total)
	got := c.pop(target, "wait=true&timeout=60000&batch=1").ok(http.StatusOK)
	require.Equal(t, []string{"3"}, got.ids(), "the message that was stored before must be first")
	c.ackBatch("", got.ack("completed")...).ok(http.StatusOK)
	for _, id := range []string{"1", "2"} {
		got = c.pop(target, "wait=true&timeout=60000&batch=1").ok(http.StatusOK)
		require.Equal(t, []string{id}, got.ids())
		c.ackBatch("", got.ack("completed")...).ok(http.StatusOK)
		if id == "1" {
			m := got.Messages[0]
			require.Equal(t, []string{payload, trace, "p"}, []string{string(m.Data), *m.TraceID, m.Partition})
		}
	}
	require.Empty(t, c.popIDs(target, ""))
	require.Empty(t, c.popIDs(queue, "consumerGroup=g"))
	entry := c.audit("action=dead_letters.redrive&queue=" + url.QueryEscape(queue)).Entries[0]
	require.Contains(t, string(entry.Parameters), fmt.Sprintf(`"toQueue":%q`, target))
	require.JSONEq(t, `{"deadLetters":3}`, string(entry.Counts))
}

func TestAnEncryptedQueueIsReadableByOperators(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	c.configure("sealed", map[string]any{"encryptionEnabled": true}).ok(http.StatusOK)
	c.push(item{Queue: "sealed", TransactionID: "a", Payload: json.RawMessage(`{"secret":"ü"}`)}).ok(http.StatusCreated)
	c.deadLetterAll("sealed", "g")
	got := c.dlq("queue=sealed").Messages[0]
	require.Equal(t, map[string]any{"secret": "ü"}, got.Data)
	shown := ask[map[string]any](c, get(messagePath(got, ""))).ok(http.StatusOK)
	require.Equal(t, true, shown["isEncrypted"])
	require.Equal(t, map[string]any{"secret": "ü"}, shown["payload"])
	c.trace(got, `"data":1,"traceNames":"flow"`).ok(http.StatusCreated)
	require.Equal(t, map[string]any{"secret": "ü"}, c.traces("by-name/flow").Traces[0].Payload)
	require.Equal(t, 1, c.redriveAll("sealed", "g").Redriven)
	require.Equal(t, []string{"a"}, c.popIDs("sealed", "consumerGroup=g"))
}

func TestARedriveWakesAnotherInstance(t *testing.T) {
	t.Parallel()
	one := start(t)
	two := startOn(t, one.dsn)
	a, b := one.client(t), two.client(t)
	a.pushIDs("q", "p", "1")
	a.deadLetterAll("q", "g")
	waiting := b.begin(popCall("q", "consumerGroup=g&wait=true&timeout=60000"))
	b.untilWaiting(1)
	require.Equal(t, 1, a.redriveAll("q", "g").Redriven)
	require.Equal(t, []string{"1"}, waiting.delivery().ok(http.StatusOK).ids())
	require.Less(t, waiting.reply.Took, patience)
}
