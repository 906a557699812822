package integration_test

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/pkg/engine/queenimport"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// door is one way in which JSON of a client gets into the database.
type door struct {
	name string
	// by are the files whose code writes the JSON to a table.
	by []string
	// levels is the number of nesting levels that the door adds around a value.
	levels int
	// give sends a value through the door. It returns the reason if the value is refused.
	give func(t *testing.T, h *house, value string) (refusal string)
}

// house is a server with all objects that the doors need.
type house struct {
	client
	anyJSON  bool
	conn     *pgx.Conn
	query    string
	source   letter
	spooling client
	values   int
}

const (
	appends = "sql/functions/push/append.sql"
	rejects = "sql/queries/engine/inbox/reject.sql"
	moves   = "sql/queries/engine/deadletter/move.sql" // moves dead letters to the inbox for another queue
)

// scheduled waits until the schedules of the test have no further instant.
const scheduled = `DO $$ BEGIN WHILE EXISTS (SELECT FROM belfry.schedule WHERE name LIKE 'once %' AND due_at IS NOT NULL AND error IS NULL) LOOP COMMIT; PERFORM pg_sleep(0.01); END LOOP; END $$`

// doors lists every door. It must name each file that writes JSON of a client to a table.
var doors = []door{
	{name: "push", by: []string{appends}, give: overHTTP("/api/v1/push", `{"items":[{"queue":"out","payload":%[1]s}]}`)},
	{name: "transaction", by: []string{appends}, give: overHTTP("/api/v1/transaction", `{"operations":[{"type":"push","items":[{"queue":"out","payload":%[1]s}]}]}`)},
	{name: "data of a transaction", by: []string{appends}, give: overHTTP("/api/v1/transaction", `{"operations":[{"type":"push","items":[{"queue":"out","data":%[1]s}]}]}`)},
	{name: "flat transaction", by: []string{appends}, give: overHTTP("/api/v1/transaction", `{"operations":[{"type":"push","queue":"out","payload":%[1]s}]}`)},
	{name: "data of a flat transaction", by: []string{appends}, give: overHTTP("/api/v1/transaction", `{"operations":[{"type":"push","queue":"out","data":%[1]s}]}`)},
	{name: "push of a cycle", by: []string{appends}, give: overHTTP("/streams/v1/cycle", `{"query_id":%[2]q,"partition_id":%[3]q,"push_items":[{"queue":"out","payload":%[1]s}]}`)},
	{name: "data of a cycle", by: []string{appends}, give: overHTTP("/streams/v1/cycle", `{"query_id":%[2]q,"partition_id":%[3]q,"push_items":[{"queue":"out","data":%[1]s}]}`)},
	{
		name: "state of a cycle", by: []string{"sql/queries/engine/store/stream_change.sql"},
		give: overHTTP("/streams/v1/cycle", `{"query_id":%[2]q,"partition_id":%[3]q,"state_ops":[{"type":"upsert","key":"k","value":%[1]s}]}`),
	},
	{name: "trace", by: []string{"sql/queries/insight/trace/insert.sql"}, give: overHTTP("/api/v1/traces", `{"partitionId":%[3]q,"transactionId":"1","traceNames":"n","data":%[1]s}`)},
	{name: "push to the spool", by: []string{appends}, give: func(_ *testing.T, h *house, value string) string {
		return ask[any](h.spooling, post("/api/v1/push", `{"items":[{"queue":"out","payload":`+value+`}]}`)).failure
	}},
	{name: "belfry.inbox", by: []string{appends, rejects, moves}, give: inSQL(`INSERT INTO belfry.inbox (queue, payload, transaction_id) VALUES ('out', $1::text::json, $2)`)},
	{name: "belfry.push", by: []string{"sql/functions/inbox/push.sql", rejects}, give: inSQL(`SELECT belfry.push('out', $1::text, transaction_id => $2)`)},
	{name: "belfry.push_many", by: []string{"sql/functions/inbox/push_many.sql", rejects}, give: inSQL(`SELECT belfry.push_many('out', ARRAY[$1::text::json], transaction_ids => ARRAY[$2])`)},
	{
		name: "belfry.inbox_retry", by: []string{"sql/functions/inbox/inbox_retry.sql", rejects},
		give: inSQL(`WITH put AS (INSERT INTO belfry.inbox_rejected (id, queue, partition, payload, transaction_id, inserted_at, code, reason)
			VALUES (-1, 'out', 'p', $1::text::json, $2, now(), 'x', 'x')) SELECT`, `SELECT belfry.inbox_retry()`),
	},
	{
		name: "attached table", by: []string{"sql/functions/attach/attachment_function.sql", "sql/functions/attach/attach_sql.sql", rejects}, levels: 2,
		give: inSQL(`INSERT INTO doc (id, body) VALUES ($2, $1::text::json)`),
	},
	{name: "schedule", by: []string{"sql/queries/engine/schedule/tick.sql"}, give: func(_ *testing.T, h *house, value string) string {
		got := ask[any](h.client, call{Method: http.MethodPut, Target: "/api/v1/schedules/s", Body: `{"queue":"out","every":"24h","payload":` + value + `}`})
		return got.failure
	}},
	{
		name: "instant of a schedule", by: []string{"sql/queries/engine/schedule/tick.sql", rejects},
		give: inSQL(`SELECT belfry.schedule('once ' || $2, 'out', $1::text::json, at => clock_timestamp() + interval '50 ms')`, scheduled, `DELETE FROM belfry.schedule`),
	},
	{name: "run of a schedule", by: []string{"sql/queries/engine/schedule/run.sql", rejects}, give: func(t *testing.T, h *house, value string) string {
		execute(t, h.conn, `SELECT belfry.schedule('run', 'out', $1::text::json, every => interval '1 day')`, value)
		ask[any](h.client, post("/api/v1/schedules/run/run", "")).ok(http.StatusOK)
		return h.rejected(t)
	}},
	{name: "message of an import", by: []string{"pkg/engine/queenimport/target.go"}, give: imported(`UPDATE queen.messages SET payload = $1::text::jsonb WHERE transaction_id = 'm7'`)},
	{name: "state of an import", by: []string{"sql/queries/engine/queenimport/state.sql"}, give: imported(`UPDATE queen_streams.state SET value = $1::text::jsonb`)},
}

func overHTTP(path, body string) func(*testing.T, *house, string) string {
	return func(_ *testing.T, h *house, value string) string {
		got := ask[any](h.client, post(path, fmt.Sprintf(body+"%.0[2]s%.0[3]s", value, h.query, h.source.PartitionID)))
		if got.failure == "" && got.Status >= http.StatusBadRequest {
			return string(got.Raw)
		}
		return got.failure
	}
}

func inSQL(statements ...string) func(*testing.T, *house, string) string {
	return func(t *testing.T, h *house, value string) string {
		h.values++
		id := fmt.Sprint("value ", h.values)
		execute(t, h.conn, statements[0], value, id)
		for _, statement := range statements[1:] {
			execute(t, h.conn, statement)
		}
		return h.rejected(t)
	}
}

// rejected waits until the sequencer has moved all rows, and returns why it has rejected one.
func (h *house) rejected(t *testing.T) (reason string) {
	t.Helper()
	until(t, "the sequencer has moved the row", func() (moved bool) {
		h.scan(t, `SELECT NOT EXISTS (SELECT FROM belfry.inbox)`, nil, &moved)
		return moved
	})
	h.scan(t, `SELECT coalesce((SELECT max(reason) FROM belfry.inbox_rejected), '')`, nil, &reason)
	execute(t, h.conn, `DELETE FROM belfry.inbox_rejected`)
	return reason
}

func imported(change string) func(*testing.T, *house, string) string {
	return func(t *testing.T, h *house, value string) string {
		from, to := fillQueen(t, strings.Repeat("ab", 32)), pgtest.Database(t)
		conn := producer(t, from)
		execute(t, conn, `DELETE FROM queen.messages WHERE is_encrypted`)
		execute(t, conn, change, value)
		client, err := queenimport.Open(t.Context(), from, to, nil)
		require.NoError(t, err)
		_, err = client.Run(t.Context(), queenimport.Options{All: true, AllowAnyJSON: h.anyJSON})
		require.NoError(t, client.Close(t.Context()))
		if err != nil {
			return err.Error()
		}
		return ""
	}
}

func build(t *testing.T, anyJSON bool) *house {
	t.Helper()
	allow := func(cfg *config.Config) { cfg.HTTP.AllowAnyJSON = anyJSON }
	h := &house{anyJSON: anyJSON, client: start(t, allow).client(t).loose(), spooling: start(t, allow).client(t).loose()}
	h.spooling.switchTo(maintenancePath, "true")
	h.conn = producer(t, h.dsn)
	execute(t, h.conn, `CREATE TABLE doc (id text PRIMARY KEY, body json); SELECT belfry.attach('doc', 'out', key => '{id}')`)
	h.query = h.register(object{"name": "sum", "source_queue": "in", "config_hash": "1"}).ok(http.StatusOK).QueryID
	h.source = letter{PartitionID: h.pushIDs("in", "p", "1")[0].PartitionID, TransactionID: "1"}
	return h
}

// Every door must have the same limits. With http.allow_any_json, the limit is what the readers of the server can parse.
func TestEveryWayToStoreJSONHasTheSameLimits(t *testing.T) {
	t.Parallel()
	for anyJSON, limit := range map[bool]int{false: 500, true: 9_990} {
		t.Run(fmt.Sprint("any JSON ", anyJSON), func(t *testing.T) {
			t.Parallel()
			h := build(t, anyJSON)
			for _, d := range doors {
				require.Empty(t, d.give(t, h, nested(limit-d.levels)), d.name)
				require.Contains(t, d.give(t, h, nested(limit+1-d.levels)), fmt.Sprint("is at level ", limit+1), d.name)
				if !anyJSON {
					require.Contains(t, d.give(t, h, `[1e400]`), "http.allow_any_json", d.name)
				}
			}
			for _, read := range h.readers() {
				read.needs(t, h)
			}
		})
	}
}

// Every file that writes JSON of a client to a table must belong to a door in the table.
func TestEveryWayToStoreJSONIsInTheTable(t *testing.T) {
	t.Parallel()
	root := os.DirFS("../..")
	writes := regexp.MustCompile(`INSERT INTO belfry\.(message|inbox|inbox_rejected|trace|stream_state)\s|UPDATE belfry\.(message|trace|stream_state) SET (payload|data|value)|Identifier\{"belfry", "(message|inbox|trace|stream_state)"`)
	var found, known []string
	for _, top := range []string{"sql/queries", "sql/functions", "pkg"} {
		require.NoError(t, fs.WalkDir(root, top, func(name string, _ fs.DirEntry, err error) error {
			if err != nil || strings.HasSuffix(name, "_test.go") || !strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, ".sql") {
				return err
			}
			text, err := fs.ReadFile(root, name)
			if writes.Match(text) {
				found = append(found, name)
			}
			return err
		}))
	}
	for _, d := range doors {
		known = append(known, d.by...)
	}
	slices.Sort(found)
	slices.Sort(known)
	require.Equal(t, slices.Compact(known), found)
}

// reader is a way to read stored JSON: a call of the API, or a path of the dashboard. If page is true, the answer is HTML.
type reader struct {
	name, path string
	call       call
	page       bool
}

func (r reader) needs(t *testing.T, h *house, texts ...string) {
	t.Helper()
	if r.path != "" {
		shown, err := h.readPage(t.Context(), r.path, "")
		require.NoError(t, err, r.name)
		for _, text := range texts {
			require.Contains(t, shown, text, r.name)
		}
		return
	}
	got := ask[any](h.client, r.call)
	require.Equal(t, http.StatusOK, got.Status, "%s: %.300s", r.name, got.Raw)
	for _, text := range texts {
		require.Contains(t, string(got.Raw), text, r.name)
	}
}

// readers returns all ways to read stored JSON.
func (h *house) readers() []reader {
	return []reader{
		{name: "dead letters", call: get("/api/v1/dlq?queue=in")},
		{name: "message", call: get("/api/v1/messages/" + h.source.PartitionID + "/1")},
		{name: "traces of a message", call: get("/api/v1/traces/" + h.source.PartitionID + "/1")},
		{name: "traces by name", call: get("/api/v1/traces/by-name/n")},
		{name: "state", call: post("/streams/v1/state/get", encode(object{"query_id": h.query, "partition_id": h.source.PartitionID}))},
		{name: "export", path: "export?q=in"},
		{name: "page of a message", page: true, path: "message?partition=" + h.source.PartitionID + "&t=1"},
		{name: "page of dead letters", page: true, path: "dead?q=in"},
		{name: "page of traces", page: true, path: "traces?name=n"},
	}
}

// The readers must show all stored JSON. A restore, an older version or an operator may have stored JSON that no reader can
// parse. The readers must show such JSON as text.
func TestReadersShowAllStoredJSON(t *testing.T) {
	t.Parallel()
	h := build(t, false)
	h.pushIDs("in", "p", "2")
	h.deadLetterAll("in", "")
	h.trace(h.source, `"traceNames":["n"],"data":{"fine":1}`).ok(http.StatusCreated)
	h.trace(letter{PartitionID: h.source.PartitionID, TransactionID: "2"}, `"traceNames":["n"],"data":{"fine":1}`).ok(http.StatusCreated)
	for _, key := range []string{"k", "l"} {
		require.True(t, h.cycle(object{"query_id": h.query, "partition_id": h.source.PartitionID, "state_ops": []object{upsert(key, object{"fine": 1})}}).Success)
	}
	for _, levels := range []int{9_997, 9_998, 9_999, 10_500} { // the answers of the readers add one to three levels
		for _, statement := range []string{
			`UPDATE belfry.message SET payload = $1::text::json WHERE transaction_id = '1'`, `UPDATE belfry.stream_state SET value = $1::text::json WHERE key = 'k'`,
			`UPDATE belfry.trace t SET data = $1::text::json FROM belfry.message m WHERE (m.partition_id, m.seq, m.transaction_id) = (t.partition_id, t.seq, '1')`,
		} {
			execute(t, h.conn, statement, nested(levels))
		}
		for _, r := range h.readers() {
			switch {
			case r.page || levels < 9_998:
				r.needs(t, h)
			case levels == 10_500:
				r.needs(t, h, `"`+nested(levels)+`"`)
			default:
				r.needs(t, h, nested(levels))
			}
		}
	}
	h.readers()[0].needs(t, h, `"transactionId":"2"`)
}
