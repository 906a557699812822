package integration_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/engine/queenimport"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func nested(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }

// unportable are payloads that some JSON readers of clients cannot read. where is the expected text of the error, a format
// for the path of the payload. why is the expected reason.
var unportable = map[string]struct{ payload, where, why string }{
	"beyond a double":                    {`1e400`, "%s is 1e400", "range of a double"},
	"below the least double":             {`{"a":[0,1,-1e400]}`, "%s.a[2] is -1e400", "range of a double"},
	"just beyond a double":               {`{"a b":1.8E+308}`, `%s["a b"] is 1.8E+308`, "range of a double"},
	"a long whole number":                {`[1` + strings.Repeat("0", 309) + `]`, "%s[0] is 1000", "range of a double"},
	"half of a surrogate pair":           {`"\ud800"`, `%s has the escape \ud800`, "half of a surrogate pair"},
	"the second half":                    {`["x\uDC00"]`, `%s[0] has the escape \uDC00`, "half of a surrogate pair"},
	"both halves in wrong order":         {`"\udf89\ud83c"`, `%s has the escape \udf89`, "half of a surrogate pair"},
	"a half and another escape":          {`"\ud83d\u0041"`, `%s has the escape \ud83d`, "half of a surrogate pair"},
	"two first halves":                   {`"\ud83d\ud83d\ude00"`, `%s has the escape \ud83d`, "half of a surrogate pair"},
	"half of a pair in a name":           {`{"a":{"\udc00x":1}}`, `a member name in %s.a has the escape \udc00`, "half of a surrogate pair"},
	"arrays in arrays":                   {nested(501), "%s[0][0]", "level 501"},
	"objects in objects":                 {strings.Repeat(`{"a":`, 501) + "1" + strings.Repeat("}", 501), "%s.a.a", "level 501"},
	"after text that only looks invalid": {`{"text":"\\ud800 1e400 [[[\"","pair":"\ud83c\udf89","n":[1E400]}`, "%s.n[0] is 1E400", "range of a double"},
}

// saysWhy requires that an error names the position, the reason and http.allow_any_json.
func saysWhy(t *testing.T, failure, path, where, why string) {
	t.Helper()
	require.Contains(t, failure, fmt.Sprintf(where, path))
	require.Contains(t, failure, why)
	require.Contains(t, failure, "http.allow_any_json")
	require.Less(t, len(failure), 300)
}

// Each route must refuse JSON that some client cannot read, and must name its path. Such a client would otherwise lose the
// whole answer with all its messages.
func TestUnportableJSONIsRefused(t *testing.T) {
	t.Parallel()
	c := start(t).client(t).loose()
	query := c.register(object{"name": "sum", "source_queue": "q", "config_hash": "1"}).ok(http.StatusOK).QueryID
	first := c.pushIDs("q", "p", "1")[0]
	cycle := fmt.Sprintf(`{"query_id":%q,"partition_id":%q,`, query, first.PartitionID)
	trace := fmt.Sprintf(`{"transactionId":"1","partitionId":%q,`, first.PartitionID)
	spooling := start(t).client(t).loose()
	spooling.switchTo(maintenancePath, "true")
	for name, one := range unportable {
		for _, way := range []struct {
			c                client
			path, body, want string
		}{
			{c, "/api/v1/push", `{"items":[{"queue":"x"},{"queue":"x","payload":%s}]}`, "items[1].payload"},
			{spooling, "/api/v1/push", `{"items":[{"queue":"x","payload":%s}]}`, "items[0].payload"},
			{c, "/api/v1/transaction", `{"operations":[{"type":"push","items":[{"queue":"x"},{"queue":"x","payload": %s}]}]}`, "operations[0].items[1].payload"},
			{c, "/api/v1/transaction", `{"operations":[{"type":"push","queue":"x","data":%s}]}`, "operations[0].data"},
			{c, "/streams/v1/cycle", cycle + `"push_items":[{"queue":"x","payload":%s}]}`, "push_items[0].payload"},
			{c, "/streams/v1/cycle", cycle + `"state_ops":[{"type":"upsert","key":"k","value":%s}]}`, "state_ops[0].value"},
			{c, "/api/v1/traces", trace + `"data":%s}`, "data"},
		} {
			got := ask[any](way.c, post(way.path, fmt.Sprintf(way.body, one.payload)))
			require.Equal(t, http.StatusBadRequest, got.Status, "%s, %s", name, way.body)
			saysWhy(t, got.failure, way.want, one.where, one.why)
		}
	}
	require.Empty(t, c.popIDs("x", ""))
	require.Empty(t, c.state(query, first.PartitionID, nil))
	require.Zero(t, spooling.maintenance().BufferedMessages)

}

// In a name or an id, half of a surrogate pair would become U+FFFD, and two names would become equal. So the server must
// refuse it, even with http.allow_any_json.
func TestNamesWithHalfASurrogatePairAreRefused(t *testing.T) {
	t.Parallel()
	for _, allowed := range []bool{false, true} {
		c := start(t, func(cfg *config.Config) { cfg.HTTP.AllowAnyJSON = allowed }).client(t).loose()
		for _, one := range []struct{ path, body, where string }{
			{"/api/v1/push", `{"items":[{"queue":"x\ud800"}]}`, "items[0].queue"},
			{"/api/v1/push", `{"items":[{"queue":"x","partition":"\ud800"}]}`, "items[0].partition"},
			{"/api/v1/push", `{"items":[{"queue":"x","transactionId":"\ud800","payload":"\ud800"}]}`, "items[0].transactionId"},
			{"/api/v1/transaction", `{"operations":[{"type":"push","items":[{"queue":"x\ud800"}]}]}`, "operations[0].items[0].queue"},
			{"/api/v1/transaction", `{"operations":[{"type":"ack","partitionId":"p","transactionId":"\ud800"}]}`, "operations[0].transactionId"},
			{"/api/v1/ack", `{"transactionId":"\ud800","partitionId":"p"}`, "transactionId"},
			{"/streams/v1/cycle", `{"query_id":"q","partition_id":"p","state_ops":[{"type":"upsert","key":"\ud800","value":1}]}`, "state_ops[0].key"},
			{"/api/v1/traces", `{"partitionId":"p","transactionId":"1","data":1,"traceNames":["\ud800"]}`, "traceNames[0]"},
			{"/api/v1/configure", `{"queue":"x","namespace":"\ud800"}`, "namespace"},
		} {
			got := ask[any](c, post(one.path, one.body))
			require.Equal(t, http.StatusBadRequest, got.Status, one.body)
			require.Contains(t, got.failure, one.where+` has the escape \ud800, half of a surrogate pair`)
			require.Contains(t, got.failure, "send both halves")
			require.NotContains(t, got.failure, "http.allow_any_json", "the error must not name http.allow_any_json, because it does not allow such names")
		}
	}
}

// A consumer that shortens an error text may cut a character in half. The server must accept its ack and store a readable
// text.
func TestErrorTextsMayHaveHalfASurrogatePair(t *testing.T) {
	t.Parallel()
	c := start(t).client(t).loose()
	query := c.register(object{"name": "sum", "source_queue": "q3", "config_hash": "1"}).ok(http.StatusOK).QueryID
	for i, body := range []struct{ path, body string }{
		{"/api/v1/ack", `{"transactionId":"1","partitionId":%q,"leaseId":%q,"status":"dlq","error":"cut \ud83d"}`},
		{"/api/v1/ack/batch", `{"acknowledgments":[{"transactionId":"1","partitionId":%q,"leaseId":%q,"status":"dlq","error":"cut \ud83d"}]}`},
		{"/api/v1/transaction", `{"operations":[{"type":"ack","transactionId":"1","partitionId":%q,"leaseId":%q,"status":"dlq","error":"cut \ud83d"}]}`},
		{"/streams/v1/cycle", `{"query_id":"` + query + `","partition_id":%q,"ack":{"transactionId":"1","leaseId":%q,"status":"failed","error":"cut \ud83d"}}`},
	} {
		name := fmt.Sprint("q", i)
		c.pushIDs(name, "p", "1")
		d := c.pop(name, "").ok(http.StatusOK)
		got := ask[any](c, post(body.path, fmt.Sprintf(body.body, d.PartitionID, d.LeaseID)))
		require.Equal(t, http.StatusOK, got.Status, "%s", got.Raw)
		letters := c.dlq("queue=" + name)
		require.Len(t, letters.Messages, 1, "%s: %s", body.path, got.Raw)
		require.Equal(t, "cut \ufffd", letters.Messages[0].ErrorMessage)
	}
	got := ask[any](c, post("/api/v1/ack/batch", `{"acknowledgments":[{"transactionId":"1","partitionId":"p","error":"\ud83d"},{"transactionId":"\ud83d","partitionId":"p"}]}`))
	require.Equal(t, http.StatusBadRequest, got.Status)
	require.Contains(t, got.failure, `acknowledgments[1].transactionId has the escape \ud83d, half of a surrogate pair`)
}

// A producer in SQL commits before the server checks its payload. So the sequencer must reject the row with a reason, and
// must deliver the rows before and after it.
func TestUnportableJSONOfSQLIsRejected(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	conn := producer(t, c.dsn)
	execute(t, conn, `CREATE TABLE doc (id text PRIMARY KEY, body json); SELECT belfry.attach('doc', 'attached', key => '{id}');
		CREATE TABLE amount (id int PRIMARY KEY, n numeric); SELECT belfry.attach('amount', 'attached', key => '{id}')`)
	execute(t, conn, `SELECT belfry.push('inbox', '1', transaction_id => 'before')`)
	type want struct{ queue, path, where, why string }
	var wanted []want
	for name, one := range unportable {
		for range 3 {
			wanted = append(wanted, want{"inbox", "payload", one.where, one.why})
		}
		execute(t, conn, `SELECT belfry.push('inbox', $1::text)`, one.payload)
		execute(t, conn, `SELECT belfry.push_many('inbox', ARRAY[$1::json])`, one.payload)
		execute(t, conn, `INSERT INTO belfry.inbox (queue, payload) VALUES ('inbox', $1::json)`, one.payload)
		if one.why != "level 501" { // the row adds nesting levels, so its text differs
			wanted = append(wanted, want{"attached", "payload.row.body", one.where, one.why})
			execute(t, conn, `INSERT INTO doc VALUES ($1, $2::json)`, name, one.payload)
		}
	}
	execute(t, conn, `INSERT INTO amount VALUES (1, 1e400), (2, 17)`)
	wanted = append(wanted, want{"attached", "payload.row.n", "%s is 1000", "range of a double"})
	execute(t, conn, `SELECT belfry.push('inbox', '2', transaction_id => 'after')`)

	until(t, "the sequencer has moved all rows", func() (moved bool) {
		c.scan(t, `SELECT NOT EXISTS (SELECT FROM belfry.inbox)`, nil, &moved)
		return moved
	})
	require.Equal(t, []string{"before", "after"}, c.popIDs("inbox", "batch=99"))
	require.Len(t, c.popIDs("attached", "batch=99&partitions=99"), 1)
	page := ask[rejectedPage](c, get("/api/v1/inbox/rejected?limit=200")).ok(http.StatusOK)
	require.Len(t, page.Rows, len(wanted))
	for _, one := range wanted {
		found := false
		for _, row := range page.Rows {
			found = found || *row.Queue == one.queue && row.Code == "invalid" && strings.Contains(row.Reason, fmt.Sprintf(one.where, one.path)) &&
				strings.Contains(row.Reason, one.why) && strings.Contains(row.Reason, "http.allow_any_json")
		}
		require.True(t, found, "%+v in %+v", one, page.Rows)
	}
}

// With http.allow_any_json, all such payloads must be stored and delivered byte for byte. Only the nesting limit of the
// JSON reader remains.
func TestAnyJSONIsAllowed(t *testing.T) {
	t.Parallel()
	c := start(t, func(cfg *config.Config) { cfg.HTTP.AllowAnyJSON = true }).client(t).loose()
	conn := producer(t, c.dsn)
	for name, one := range unportable {
		pushRaw(c, name, one.payload).ok(http.StatusCreated)
		require.Equal(t, one.payload, payload(c, name))
		execute(t, conn, `SELECT belfry.push($1, $2::text)`, "sql "+name, one.payload)
		got := c.pop("sql "+name, "autoAck=true&wait=true&timeout=20000").ok(http.StatusOK)
		require.Equal(t, one.payload, string(got.Messages[0].Data))
	}
	t.Run("too deep for the reader", func(t *testing.T) { payloadTooDeep(t, c) })
}

// A body may begin with a byte order mark, as in Queen MQ. Two marks are an error.
func TestABodyMayBeginWithAByteOrderMark(t *testing.T) {
	t.Parallel()
	c := start(t).client(t).loose()
	const mark = "\ufeff"
	ask[[]pushed](c, post("/api/v1/push", mark+`{"items":[{"queue":"q","payload":"`+mark+`x"}]}`)).ok(http.StatusCreated)
	require.Equal(t, `"`+mark+`x"`, payload(c, "q"))
	ask[any](c, post("/api/v1/configure", mark+`{"queue":"q"}`)).ok(http.StatusOK)
	ask[any](c, post("/api/v1/push", mark)).refused("Empty request body")
	require.Equal(t, http.StatusBadRequest, ask[any](c, post("/api/v1/push", mark+mark+`{"items":[]}`)).Status)
}

// An import must stop at a message or a state that some client cannot read, and must name it. With AllowAnyJSON it must
// copy it. No test row has half of a surrogate pair in plain text, because jsonb refuses it.
func TestUnportableJSONIsNotImportedSilently(t *testing.T) {
	t.Parallel()
	key := strings.Repeat("ab", 32)
	theirs, err := seal.New(seal.Config{Key: setting.Secret(key)})
	require.NoError(t, err)
	for _, one := range []struct{ change, where, why string }{
		{`UPDATE queen.messages SET payload = '{"a":[1e400]}' WHERE transaction_id = 'm7'`, `queue "orders", partition "A", transaction id "m7": payload.a[0] is 1000`, "range of a double"},
		{`UPDATE queen.messages SET payload = '` + nested(501) + `' WHERE transaction_id = 'm7'`, `queue "orders", partition "A", transaction id "m7": payload[0][0]`, "level 501"},
		{`UPDATE queen.messages SET payload = '` + queenEnvelope(t, key, `{"card":"\ud800"}`) + `' WHERE is_encrypted`, `queue "secret", partition "Default", transaction id "m9": payload.card has the escape \ud800`, "half of a surrogate pair"},
		{`UPDATE queen_streams.state SET value = '{"windowEnd":5,"sum":1e400}'`, `query "sum", key "k": value.sum is 1000`, "range of a double"},
	} {
		from, to := fillQueen(t, key), pgtest.Database(t)
		execute(t, producer(t, from), one.change)
		run := func(o queenimport.Options) error {
			client, err := queenimport.Open(t.Context(), from, to, nil)
			require.NoError(t, err)
			_, err = client.Run(t.Context(), o)
			require.NoError(t, client.Close(t.Context()))
			return err
		}
		err := run(queenimport.Options{Key: theirs, All: true})
		require.Error(t, err, one.change)
		require.ErrorContains(t, err, one.where)
		require.ErrorContains(t, err, one.why)
		require.ErrorContains(t, err, "http.allow_any_json")
		require.NoError(t, run(queenimport.Options{Key: theirs, All: true, AllowAnyJSON: true}))
		var messages int
		require.NoError(t, producer(t, to).QueryRow(t.Context(), `SELECT count(*) FROM belfry.message`).Scan(&messages))
		require.Equal(t, 14, messages)
	}
}
