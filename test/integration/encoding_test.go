package integration_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/access/token"
	"github.com/belfry-mq/belfry/pkg/engine/attach"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// refused runs a statement that Postgres must refuse, and returns its SQLSTATE.
func refused(t *testing.T, conn *pgx.Conn, statement string) string {
	t.Helper()
	_, err := conn.Exec(t.Context(), statement)
	require.Error(t, err, statement)
	return postgres.SQLState(err)
}

// A database with the encoding SQL_ASCII accepts any bytes as text, but Belfry reads UTF-8. A client that sends invalid
// text must get an error. Other clients must not be affected.
func TestADatabaseWithoutAnEncoding(t *testing.T) {
	t.Parallel()
	dsn := pgtest.EncodedDatabase(t, "SQL_ASCII")
	s := startOn(t, dsn, proven)
	c, conn := s.client(t), producer(t, dsn)
	execute(t, conn, `CREATE TABLE t (a text)`)
	c.pushIDs("日本", "ö", "é")
	require.Equal(t, []string{"é"}, c.popIDs("日本", "consumerGroup=ü"))

	const bytes, invalid = `convert_from('\xe9', 'SQL_ASCII')`, "22021"
	for _, statement := range []string{
		`SELECT belfry.subscribe('日本', ` + bytes + `)`, `SELECT belfry.pop('日本', ` + bytes + `)`, `SELECT belfry.pop(` + bytes + `, 'g')`,
		`SELECT belfry.await('日本', ` + bytes + `)`, `SELECT belfry.ack((SELECT lease FROM belfry.pop('日本', 'g')), status => 'dlq', error => ` + bytes + `)`,
		`SELECT belfry.attach('t', ` + bytes + `)`, `SELECT belfry.attach('t', 'q', condition => 'new.a = ''' || ` + bytes + ` || '''')`,
	} {
		require.Equal(t, invalid, refused(t, conn, statement), statement)
	}
	execute(t, conn, `DO $$ BEGIN EXECUTE format('CREATE TABLE %I (%I text)', 'u' || `+bytes+`, 'v' || `+bytes+`);
		EXECUTE format('CREATE TABLE w (%I text)', 'v' || `+bytes+`); END $$`)
	for _, arguments := range []string{
		`(SELECT oid FROM pg_class WHERE relname LIKE 'u_'), 'q'`, `'w', 'q', columns => ARRAY ['v' || ` + bytes + `]`, `'w', 'q', key => ARRAY ['v' || ` + bytes + `]`,
	} {
		require.Equal(t, invalid, refused(t, conn, `SELECT belfry.attach(`+arguments+`)`), arguments)
	}
	execute(t, conn, `SELECT belfry.attach('t', 'q', columns => '{a}', condition => 'new.a::int > 0')`)
	desk, err := attach.Open(t.Context(), dsn)
	require.NoError(t, err)
	for text, want := range map[string]string{
		bytes:                         "not valid UTF-8",
		`'x' || repeat('ö', 2000)`:    "öö",
		`'x' || repeat('ö', 2) || ''`: `invalid input syntax for type integer: "xöö"`,
	} {
		execute(t, conn, `TRUNCATE belfry.attachment_failure`) // only one failure per second is recorded, so the table is emptied
		execute(t, conn, `INSERT INTO t VALUES (`+text+`)`)
		list, err := desk.List(t.Context())
		require.NoError(t, err)
		require.Contains(t, list[0].LastFailure, want, text)
	}
	// The name of this table was valid when the table was attached, and becomes invalid now.
	execute(t, conn, `TRUNCATE belfry.attachment_failure; DO $$ BEGIN EXECUTE format('ALTER TABLE t RENAME TO %I', 't' || `+bytes+`); END $$`)
	execute(t, conn, `DO $$ BEGIN EXECUTE format('INSERT INTO %I VALUES (''x'')', 't' || `+bytes+`); END $$`)
	list, err := desk.List(t.Context())
	require.NoError(t, err)
	require.Contains(t, list[0].Table, "unreadable")
	require.EqualValues(t, 1, list[0].Failures)
	require.NoError(t, desk.Close(t.Context()))

	waiting := c.begin(anyOf("日本"))
	execute(t, conn, `INSERT INTO belfry.inbox (queue, payload) VALUES (`+bytes+`, '1'), ('日本', '2')`)
	require.Len(t, waiting.delivery().ok(http.StatusOK).Messages, 1)
	ask[any](c, get(groupsPath)).ok(http.StatusOK)
	require.Empty(t, c.dlq("queue="+url.QueryEscape("日本")).Messages)
}

// No free text may make a request fail, even if the encoding of the database lacks its characters. Text is stored with
// replacement characters, and JSON with escapes. LATIN1 and EUC_JP both have é, and neither has 😀.
func TestTextsThatADatabaseCannotStoreGetReplacements(t *testing.T) {
	t.Parallel()
	const text = `é日本😀\u0000` // JSON text with the escape \u0000
	for encoding, want := range map[string]string{"LATIN1": "é???", "EUC_JP": "é日本?", "UTF8": "é日本😀"} {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			nul := "?"
			if encoding == "UTF8" {
				nul = "\ufffd"
			}
			var auth token.Config
			c := startOn(t, pgtest.EncodedDatabase(t, encoding), func(cfg *config.Config) {
				cfg.Auth.Enabled, cfg.Auth.Secret = true, setting.Secret(strings.Repeat("s", 32))
				auth = cfg.Auth
			}).client(t).loose()
			bearer, err := token.Sign(auth, token.Request{Subject: "é日本😀", Role: identity.Admin, Lifetime: time.Hour}, token.SecretKey(auth.Secret.Reveal()))
			require.NoError(t, err)
			do := func(what call, status int) answer[any] {
				t.Helper()
				what.Token = "Bearer " + bearer
				got := ask[any](c, what)
				require.Equal(t, status, got.Status, "%s: %.200s", what.Body, got.Raw)
				return got
			}
			registered := read[streamQuery](t, do(post("/streams/v1/queries", `{"name":"s","source_queue":"q","config_hash":"1"}`), http.StatusOK).reply).body

			for i, way := range []struct{ path, body string }{
				{"/api/v1/ack", `{"transactionId":"1","partitionId":%[1]q,"leaseId":%[2]q,"status":"dlq","error":"` + text + `"}`},
				{"/api/v1/ack/batch", `{"acknowledgments":[{"transactionId":"1","partitionId":%[1]q,"leaseId":%[2]q,"status":"dlq","error":"` + text + `"}]}`},
				{"/api/v1/transaction", `{"operations":[{"type":"ack","transactionId":"1","partitionId":%[1]q,"leaseId":%[2]q,"status":"dlq","error":"` + text + `"}]}`},
				{"/streams/v1/cycle", `{"query_id":"` + registered.QueryID + `","partition_id":%[1]q,"ack":{"transactionId":"1","leaseId":%[2]q,"status":"failed","error":"` + text + `"}}`},
				{"/api/v1/messages/%[1]s/1/dlq", `{"error":"` + text + `"}`},
			} {
				name := fmt.Sprint("q", i)
				do(post("/api/v1/push", `{"items":[{"queue":"`+name+`","transactionId":"1","payload":1}]}`), http.StatusCreated)
				d := read[delivery](t, do(get("/api/v1/pop/queue/"+name), http.StatusOK).reply).body
				require.Contains(t, string(do(get("/api/v1/messages/"+d.PartitionID+"/1"), http.StatusOK).Raw), `"producerSub":"`+want+`"`)
				do(post(fmt.Sprintf(way.path+"%.0[1]s", d.PartitionID), fmt.Sprintf(way.body+"%.0[1]s%.0[2]s", d.PartitionID, d.LeaseID)), http.StatusOK)
				found := read[letters](t, do(get("/api/v1/dlq?queue="+name), http.StatusOK).reply).body.Messages
				require.Len(t, found, 1, way.path)
				require.Equal(t, want+nul, found[0].ErrorMessage, way.path)
			}

			d := read[[]pushed](t, do(post("/api/v1/push", `{"items":[{"queue":"q","transactionId":"1","payload":1}]}`), http.StatusCreated).reply).body
			do(post("/api/v1/traces", fmt.Sprintf(`{"partitionId":%q,"transactionId":"1","eventType":"é日本😀","consumerGroup":"é日本😀","traceNames":["é日本😀"],"data":{"日":"é日本😀\u0000"}}`, d[0].PartitionID)), http.StatusCreated)
			of := read[traces](t, do(get("/api/v1/traces/by-name/"+url.PathEscape("é日本😀")), http.StatusOK).reply).body
			require.Len(t, of.Traces, 1)
			require.Equal(t, []any{want, map[string]any{"日": "é日本😀\x00"}}, []any{of.Traces[0].EventType, of.Traces[0].Data})

			do(post("/api/v1/resources/queues/q/pause", `{"reason":"é日本😀\ud83d"}`), http.StatusOK)
			entries := read[auditPage](t, do(get("/api/v1/audit?action=delivery.pause"), http.StatusOK).reply).body.Entries
			require.Len(t, entries, 1)
			require.JSONEq(t, `{"reason":"é日本😀\ufffd"}`, string(entries[0].Parameters))
			require.Contains(t, string(do(remove("/api/v1/dlq?queue=q0&error="+url.QueryEscape("é日本😀\ufffd")), http.StatusOK).Raw), `"purged":1`)

			execute(t, producer(t, c.dsn), `SELECT belfry.push('q', '{"\u65e5\u672c": 1e400}'::text)`)
			until(t, "the sequencer has rejected the row", func() (rejected bool) {
				c.scan(t, `SELECT EXISTS (SELECT FROM belfry.inbox_rejected)`, nil, &rejected)
				return rejected
			})
		})
	}
}

// With a Turkish locale, the uppercase of i is not I.
func TestADatabaseWithATurkishLocale(t *testing.T) {
	t.Parallel()
	dsn := pgtest.TurkishDatabase(t)
	s := startOn(t, dsn, proven)
	c, conn := s.client(t), producer(t, dsn)
	execute(t, conn, `CREATE TABLE t (id int PRIMARY KEY)`)
	execute(t, conn, `SELECT belfry.attach('t', 'INI', '{INSERT,update,Delete}', key => '{id}')`)
	execute(t, conn, `INSERT INTO t VALUES (1)`)
	execute(t, conn, `UPDATE t SET id = 1`)
	execute(t, conn, `DELETE FROM t`)
	for _, event := range []string{"insert", "update", "delete"} {
		change := c.popPartition("INI", "1", "autoAck=true&wait=true&timeout=20000").ok(http.StatusOK)
		require.Contains(t, string(change.Messages[0].Data), event)
	}
	c.pushIDs("ini", "ini", "1")
	require.Equal(t, []string{"1"}, c.popPartition("ini", "ini", "").ok(http.StatusOK).ids())
}
