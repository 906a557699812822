package integration_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// canary is a text in payloads and error texts. The audit must never contain it.
const canary = "canary-5c1f"

type auditEntry struct {
	ID, At, Address, RequestID, Action, Result string
	Subject, TokenID                           *string
	Queue, Partition, ConsumerGroup            string // null is ""
	TransactionID                              string
	Parameters, Counts                         json.RawMessage
	Undoable                                   bool
	UndoneBy                                   *string
}

type auditPage struct {
	Entries    []auditEntry
	Pagination struct{ Next *string }
}

func (c client) audit(query string) auditPage {
	c.t.Helper()
	return ask[auditPage](c, get("/api/v1/audit?"+query)).ok(http.StatusOK)
}

// change is a request of an operator, with the expected status and audit entry.
type change struct {
	call
	status int
	want   auditEntry
}

// on returns an expected entry of a successful request.
func on(action, queue, partition, group, transaction, parameters, counts string) auditEntry {
	return auditEntry{
		Action: action, Queue: queue, Partition: partition, ConsumerGroup: group, TransactionID: transaction,
		Parameters: json.RawMessage(parameters), Counts: json.RawMessage(counts), Address: "127.0.0.1", Result: "ok",
	}
}

// failed turns an expected entry into the entry of a failed request.
func (e auditEntry) failed(code string) auditEntry {
	e.Result, e.Counts = code, json.RawMessage("{}")
	return e
}

// operated prepares the queue q. In partition p, the messages m1 to m4 are dead letters of group g, and m5 waits. Three
// rows of the inbox are rejected. operated returns the id of the partition.
func (c client) operated() (partitionID string) {
	c.t.Helper()
	payload := json.RawMessage(`{"secret":"` + canary + `"}`)
	for _, id := range []string{"m1", "m2", "m3", "m4"} {
		c.push(item{Queue: "q", Partition: "p", TransactionID: id, Payload: payload}).ok(http.StatusCreated)
	}
	c.deadLetterAll("q", "g")
	pushed := c.transact(nil, pushing(item{Queue: "q", Partition: "p", TransactionID: "m5", Payload: payload})).ok(http.StatusOK)
	require.True(c.t, pushed.Success)
	c.plantRejected("q", canary, "queue_full", "invalid", "invalid")
	return c.dlq("queue=q").Messages[0].PartitionID
}

// changes returns at least one request for each audited route.
func changes(partitionID string) []change {
	const ok, missing = http.StatusOK, http.StatusNotFound
	message, group := "/api/v1/messages/"+partitionID+"/", groupsPath+"/g"
	byID := fmt.Sprintf(`{"partitionId":%q}`, partitionID)
	seekPartition := group + "/queues/q/partitions/"
	return []change{
		{post(message+"m1/retry", `{"consumerGroup":"g"}`), ok, on("message.retry", "q", "p", "g", "m1", byID, `{"deadLetters":1}`)},
		{post(message+"m1/retry", ""), missing, on("message.retry", "q", "p", "", "m1", byID, "").failed("not_found")},
		{
			post("/api/v1/dlq/redrive", `{"queue":"q","consumerGroup":"g","transactionId":"m2","rate":50}`), ok,
			on("dead_letters.redrive", "q", "", "g", "m2", `{"all":false,"rate":50}`, `{"deadLetters":1}`),
		},
		{
			remove("/api/v1/dlq?queue=q&partition=p&transactionId=m3&from=2020-01-01"), ok,
			on("dead_letters.purge", "q", "p", "", "m3", `{"from":"2020-01-01T00:00:00Z"}`, `{"deadLetters":1}`),
		},
		{remove(message + "m4"), ok, on("message.delete", "q", "p", "", "m4", byID, `{"messages":1}`)},
		{remove(message + "m4"), ok, on("message.delete", "", "", "", "m4", byID, "{}")},
		{
			post(message+"m5/dlq", fmt.Sprintf(`{"consumerGroup":"g","error":%q}`, canary)), ok,
			on("message.dead_letter", "q", "p", "g", "m5", byID, `{"messages":1}`),
		},
		{post(message+"m6/dlq", `{"consumerGroup":"g"}`), missing, on("message.dead_letter", "q", "p", "g", "m6", byID, "").failed("not_found")},
		{post(group+"/queues/q/seek", `{"toEnd":true}`), ok, on("group.seek", "q", "", "g", "", `{"toEnd":true}`, `{"cursors":2}`)},
		{
			post(seekPartition+"p/seek", `{"timestamp":"2020-02-03T04:05:06Z"}`), ok,
			on("group.seek", "q", "p", "g", "", `{"timestamp":"2020-02-03T04:05:06Z"}`, `{"cursors":1}`),
		},
		{post(seekPartition+"none/seek", `{"toBeginning":true}`), missing, on("group.seek", "q", "none", "g", "", `{"toBeginning":true}`, "").failed("not_found")},
		{
			post(group+"/subscription", `{"subscriptionTimestamp":"2020-02-03T04:05:06Z"}`), ok,
			on("group.subscription", "", "", "g", "", `{"subscriptionTimestamp":"2020-02-03T04:05:06Z"}`, `{"subscriptions":0}`),
		},
		{post("/api/v1/resources/queues/q/pause", `{"reason":"x"}`), ok, on("delivery.pause", "q", "", "", "", `{"reason":"x"}`, `{"changed":1}`)},
		{post("/api/v1/resources/queues/q/resume", ""), ok, on("delivery.resume", "q", "", "", "", "{}", `{"changed":1}`)},
		{post("/api/v1/resources/queues/q/partitions/p/pause", ""), ok, on("delivery.pause", "q", "p", "", "", "{}", `{"changed":1}`)},
		{post("/api/v1/resources/queues/q/partitions/p/resume", ""), ok, on("delivery.resume", "q", "p", "", "", "{}", `{"changed":1}`)},
		{post(group+"/queues/q/pause", ""), ok, on("delivery.pause", "q", "", "g", "", "{}", `{"changed":1}`)},
		{post(group+"/queues/q/resume", ""), ok, on("delivery.resume", "q", "", "g", "", "{}", `{"changed":1}`)},
		{post(group+"/queues/none/resume", ""), missing, on("delivery.resume", "none", "", "g", "", "{}", "").failed("not_found")},
		{remove(group + "/queues/q?deleteMetadata=false"), ok, on("group.delete", "q", "", "g", "", `{"deleteMetadata":false}`, `{"groups":1,"cursors":2}`)},
		{remove(group), ok, on("group.delete", "", "", "g", "", `{"deleteMetadata":true}`, "{}")},
		{post("/api/v1/system/maintenance", `{"enabled":true}`), ok, on("maintenance.push", "", "", "", "", `{"enabled":true}`, `{"settings":1}`)},
		{post("/api/v1/inbox/rejected/retry", `{"queue":"q","code":"queue_full"}`), ok, on("inbox.retry", "q", "", "", "", `{"all":false,"code":"queue_full"}`, `{"rows":1}`)},
		{remove("/api/v1/inbox/rejected?id=1002"), ok, on("inbox.discard", "", "", "", "", `{"all":false,"id":"1002"}`, `{"rows":1}`)},
		{remove("/api/v1/inbox/rejected?all=true"), ok, on("inbox.discard", "", "", "", "", `{"all":true}`, `{"rows":1}`)},
		{remove("/api/v1/inbox/rejected?all=true"), ok, on("inbox.discard", "", "", "", "", `{"all":true}`, `{}`)},
		{post("/api/v1/system/maintenance/rejected/retry", ""), ok, on("maintenance.retry", "", "", "", "", `{}`, `{}`)},
		{call{Method: http.MethodDelete, Target: "/api/v1/system/maintenance/rejected"}, ok, on("maintenance.discard", "", "", "", "", `{}`, `{}`)},
		{post("/api/v1/system/maintenance/pop", `{"enabled":true}`), ok, on("maintenance.pop", "", "", "", "", `{"enabled":true}`, `{"settings":1}`)},
		{remove("/api/v1/resources/queues/q"), ok, on("queue.delete", "q", "", "", "", "{}", `{"queues":1}`)},
		{remove("/api/v1/resources/queues/q"), ok, on("queue.delete", "q", "", "", "", "{}", `{"queues":0}`)},
	}
}

// Each change of an operator must make exactly one entry. Requests of producers and consumers, dry runs and requests with
// status 400 must make no entry.
func TestEachChangeOfAnOperatorIsAudited(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	configured := c.configure("q", map[string]any{"leaseTime": 77})
	configured.ok(http.StatusOK)
	partitionID := c.operated()
	for _, silent := range []call{
		post("/api/v1/dlq/redrive", `{"queue":"q","consumerGroup":"g","all":true,"dryRun":true}`),
		remove("/api/v1/dlq?queue=q&dryRun=true"),
	} {
		ask[json.RawMessage](c, silent).ok(http.StatusOK)
	}
	for _, invalid := range []call{
		post(groupsPath+"/g/queues/q/seek", `{}`), post("/api/v1/configure", `{}`), remove("/api/v1/dlq?queue=q&spelled=wrong"),
	} {
		ask[json.RawMessage](c.loose(), invalid).ok(http.StatusBadRequest)
	}

	first := c.audit("").Entries
	require.Len(t, first, 1, "only the configuration may have an entry")
	require.Contains(t, string(first[0].Parameters), `"leaseTime":77`)
	first[0].Parameters = nil
	want := on("queue.configure", "q", "", "", "", "", `{"queues":1}`)
	want.ID, want.At, want.RequestID, want.Parameters = first[0].ID, first[0].At, configured.Header.Get("X-Request-Id"), nil
	require.Equal(t, want, first[0])

	all := changes(partitionID)
	for _, one := range all {
		what := one.Method + " " + one.Target + " " + one.Body
		reply := ask[json.RawMessage](c, one.call)
		require.Equal(t, one.status, reply.Status, "%s: %s", what, reply.Raw)
		got := c.audit("limit=1").Entries[0]
		require.JSONEq(t, string(one.want.Parameters), string(got.Parameters), what)
		require.JSONEq(t, string(one.want.Counts), string(got.Counts), what)
		want := one.want
		want.ID, want.At, want.Parameters, want.Counts, want.Undoable = got.ID, got.At, got.Parameters, got.Counts, got.Undoable
		want.RequestID = reply.Header.Get("X-Request-Id")
		require.Equal(t, want, got, what)
	}
	require.Len(t, c.audit("").Entries, 1+len(all), "each change must have one entry")

	var dump string
	c.scan(t, "SELECT string_agg(a::text, ' ') FROM belfry.audit a", nil, &dump)
	require.NotContains(t, dump, canary, "the audit must contain no payload and no error text")
	auditIsFiltered(t, c)
}

// auditIsFiltered reads the entries of TestEachChangeOfAnOperatorIsAudited with filters and in pages.
func auditIsFiltered(t *testing.T, c client) {
	t.Helper()
	all := c.audit("").Entries
	select1 := func(keep func(auditEntry) bool) (out []auditEntry) {
		for _, one := range all {
			if keep(one) {
				out = append(out, one)
			}
		}
		require.NotEmpty(t, out)
		require.Less(t, len(out), len(all))
		return out
	}
	require.Equal(t, select1(func(e auditEntry) bool { return e.Queue == "q" }), c.audit("queue=q").Entries)
	require.Equal(t, select1(func(e auditEntry) bool { return e.ConsumerGroup == "g" }), c.audit("consumerGroup=g").Entries)
	require.Equal(t, select1(func(e auditEntry) bool { return e.Action == "group.seek" }), c.audit("action=group.seek").Entries)
	require.Equal(t, select1(func(e auditEntry) bool { return e.Queue == "q" && e.ConsumerGroup == "g" && e.Action == "group.delete" }),
		c.audit("queue=q&consumerGroup=g&action=group.delete").Entries)
	require.Empty(t, c.audit("subject=nobody").Entries)
	require.Empty(t, c.audit("to=2020-01-01").Entries)
	require.Equal(t, all, c.audit("from=2020-01-01").Entries)
	require.Equal(t, http.StatusBadRequest, ask[auditPage](c.loose(), get("/api/v1/audit?from=2021-01-01&to=2020-01-01")).Status)

	for _, filter := range []string{"", "&queue=q"} {
		var paged []auditEntry
		for next := ""; ; {
			page := c.audit("limit=3" + filter + next)
			paged = append(paged, page.Entries...)
			if page.Pagination.Next == nil {
				break
			}
			require.Len(t, page.Entries, 3)
			next = "&cursor=" + url.QueryEscape(*page.Pagination.Next)
		}
		require.Equal(t, c.audit(filter).Entries, paged)
	}
}

// stateOf is a digest of all data that the changes can change.
const stateOf = `SELECT md5(concat_ws('|',
	(SELECT string_agg(concat_ws(',', q.name, q.lease_time, q.deleted_at, q.paused), ';' ORDER BY q.id) FROM belfry.queue q),
	(SELECT string_agg(concat_ws(',', g.name, g.mode, g.start_at, g.paused), ';' ORDER BY g.id) FROM belfry.consumer_group g),
	(SELECT string_agg(concat_ws(',', c.partition_id, c.group_id, c.committed, c.skip, c.redrives), ';' ORDER BY c.partition_id, c.group_id) FROM belfry.cursor c),
	(SELECT string_agg(p.name, ';' ORDER BY p.id) FROM belfry.partition p WHERE p.paused),
	(SELECT string_agg(d.id::text, ';' ORDER BY d.id) FROM belfry.dead_letter d),
	(SELECT string_agg(m.id::text, ';' ORDER BY m.partition_id, m.seq) FROM belfry.message m),
	(SELECT string_agg(r.id::text, ';' ORDER BY r.id) FROM belfry.inbox_rejected r),
	(SELECT string_agg(concat_ws(',', s.name, s.enabled), ';' ORDER BY s.name) FROM belfry.setting s)))`

// A change and its entry are written in one transaction. If one of them fails, neither may be stored.
func TestAChangeAndItsEntryAreStoredTogether(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	c.configure("q", nil).ok(http.StatusOK)
	partitionID := c.operated()
	c.exec("UPDATE belfry.consumer_group SET mode = 'new'") // so that the group has a stored subscription
	c.exec(`CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = '58000'; END $$`)
	todo := []call{post("/api/v1/configure", `{"queue":"q","options":{"leaseTime":99}}`)}
	for _, one := range changes(partitionID) {
		resumes := one.want.Action == "delivery.resume" // a resume changes nothing here, because nothing is paused
		if one.want.Result == "ok" && string(one.want.Counts) != "{}" && !resumes {
			todo = append(todo, one.call)
		}
	}
	var before, after string
	c.scan(t, stateOf, nil, &before)
	refuseAll := func(entries int) {
		for _, what := range todo {
			ask[json.RawMessage](c, what).ok(http.StatusServiceUnavailable)
			c.scan(t, stateOf, nil, &after)
			require.Equal(t, before, after, "%s %s", what.Method, what.Target)
		}
		require.Len(t, c.audit("").Entries, 1+entries)
	}

	c.exec(`CREATE TRIGGER refuse BEFORE INSERT ON belfry.audit FOR EACH ROW EXECUTE FUNCTION public.refuse()`)
	refuseAll(0)
	c.exec(`DROP TRIGGER refuse ON belfry.audit`)

	for _, table := range []string{"queue", "consumer_group", "partition", "cursor", "dead_letter", "message", "setting", "inbox_rejected"} { // these changes fail at the COMMIT
		c.exec(`CREATE CONSTRAINT TRIGGER refuse AFTER INSERT OR UPDATE OR DELETE ON belfry.` + table +
			` DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.refuse()`)
	}
	refuseAll(len(todo))
	for _, entry := range c.audit("limit=" + fmt.Sprint(len(todo))).Entries {
		require.Equal(t, "unavailable", entry.Result)
		require.JSONEq(t, "{}", string(entry.Counts), "%s: the entry must have no counts, because nothing was committed", entry.Action)
	}
}

func auditOf(t *testing.T, got reply) (page auditPage) {
	t.Helper()
	require.NoError(t, json.Unmarshal(got.Raw, &page))
	return page
}
