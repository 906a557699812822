package attach_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/attach"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// layouts are tables with the columns id, grp, a, b, c, d and g in different row layouts. Their ids
// are unique.
var layouts = map[string]string{
	"plain": `CREATE TABLE t (gone int, id bigint PRIMARY KEY, grp int NOT NULL, gone2 text, a text, b numeric, c jsonb, d timestamptz,
		g text GENERATED ALWAYS AS (grp || '/' || a) STORED); ALTER TABLE t DROP COLUMN gone; ALTER TABLE t DROP COLUMN gone2`,
	"partitioned": `CREATE TABLE t (id bigint, grp int NOT NULL, a text, gone int, b numeric, c jsonb, d timestamptz,
		g text GENERATED ALWAYS AS (a || '!') STORED, PRIMARY KEY (id, grp)) PARTITION BY LIST (grp);
		ALTER TABLE t DROP COLUMN gone;
		CREATE TABLE t_0 PARTITION OF t FOR VALUES IN (0);
		CREATE TABLE t_1 (c jsonb, d timestamptz, x int, a text, id bigint, g text GENERATED ALWAYS AS (a || '!') STORED, grp int NOT NULL, b numeric, PRIMARY KEY (id, grp));
		ALTER TABLE t_1 DROP COLUMN x;
		ALTER TABLE t ATTACH PARTITION t_1 FOR VALUES IN (1);
		CREATE TABLE t_2 PARTITION OF t DEFAULT PARTITION BY HASH (id);
		CREATE TABLE t_2a PARTITION OF t_2 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
		CREATE TABLE t_2b PARTITION OF t_2 FOR VALUES WITH (MODULUS 2, REMAINDER 1)`,
	"inherited": `CREATE TABLE t (id bigint PRIMARY KEY, grp int NOT NULL, a text, b numeric, c jsonb, d timestamptz, g text GENERATED ALWAYS AS (a || '?') STORED);
		CREATE TABLE below (more int, PRIMARY KEY (id)) INHERITS (t);
		INSERT INTO below SELECT i, 1, 'below', i, '{}', now() FROM generate_series(-50, -1) AS i`,
}

// virtual needs Postgres 18.
const virtual = `CREATE TABLE t (id bigint, grp int NOT NULL, a text, b numeric, c jsonb, d timestamptz, g text GENERATED ALWAYS AS (a || '%1$s' || grp),
		"h'$1" int GENERATED ALWAYS AS (id * 1.5), share numeric(10,2) GENERATED ALWAYS AS (id / 7.0), word varchar(99) COLLATE "C" GENERATED ALWAYS AS (a),
		day date GENERATED ALWAYS AS ('2026-01-01 12:00'::timestamp + grp * interval '1 day'), PRIMARY KEY (id, grp)) PARTITION BY LIST (grp);
	CREATE TABLE t_0 PARTITION OF t FOR VALUES IN (0); CREATE TABLE t_1 PARTITION OF t DEFAULT`

// After random changes of a table, a replica that is built only from the messages equals the table.
func TestMessagesRebuildTheTable(t *testing.T) {
	all := maps.Clone(layouts)
	if newFixture(t).version() >= 180000 {
		all["virtual"] = virtual
	}
	for name, layout := range all {
		t.Run(name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			p := newFixture(t)
			p.exec(layout)
			p.attach(attach.Request{Table: "t", Queue: "changes", Payload: attach.PayloadChanges})
			p.attach(attach.Request{Table: "t", Queue: "rows", Key: []string{"id"}})
			if name == "virtual" {
				p.attach(attach.Request{Table: "t", Queue: "days", Key: []string{"day"}, Condition: `1 / (pg_collation_for(new.word) = '"C"')::int = 1`})
			}
			p.attach(attach.Request{Table: "t", Queue: "groups", Key: []string{"g"}, Columns: []string{"id", "g"}, Condition: "new.g IS NOT NULL AND new.g LIKE '%a%'"})
			c := &replicator{fixture: p, random: rand.New(rand.NewPCG(seed, 0)), unique: "(id)"}
			if strings.Contains(layout, "PARTITION BY") {
				c.unique = "(id, grp)"
			}
			c.reload()
			for range 250 {
				c.change()
				c.compare()
			}
			for _, a := range p.list() {
				require.Zero(t, a.Failures, a.LastFailure)
				require.EqualValues(t, 3, a.Triggers)
			}
		})
	}
}

// A virtual column can depend on tableoid.
func TestAVirtualColumnCanUseTableoid(t *testing.T) {
	p := newFixture(t)
	if p.version() < 180000 {
		return // no virtual columns
	}
	p.exec(`CREATE TABLE t (id int, of regclass GENERATED ALWAYS AS (tableoid)); CREATE TABLE u (LIKE t INCLUDING ALL) PARTITION BY LIST (id);
		CREATE TABLE u_0 PARTITION OF u DEFAULT`)
	p.attach(attach.Request{Table: "t", Queue: "q"})
	p.attach(attach.Request{Table: "u", Queue: "q"})
	p.exec(`INSERT INTO t VALUES (1); INSERT INTO u VALUES (1)`)
	require.Equal(t, []string{
		`q/Default {"op": "insert", "row": {"id": 1, "of": "public.t"}, "table": "public.t"}`,
		`q/Default {"op": "insert", "row": {"id": 1, "of": null}, "table": "public.u"}`,
	}, p.sent())
}

// The result of a virtual column does not depend on settings of the session. The default collation
// of a type needs no right to the schema of the collation.
func TestAVirtualColumnIsTheSameInEverySession(t *testing.T) {
	p := newFixture(t)
	if p.version() < 180000 {
		return // no virtual columns
	}
	p.exec(`CREATE TABLE t (x float8, y bool GENERATED ALWAYS AS (x = '0.30000000000000004'::float8)); SELECT belfry.attach('t', 'q')`)
	p.exec(`SET extra_float_digits = 0; INSERT INTO t VALUES (0.1::float8 + 0.2)`)
	require.Contains(t, p.sent()[0], `"y": true`)
	p.exec(`CREATE TABLE u (a text, b text GENERATED ALWAYS AS (a || a)); SELECT belfry.attach('u', 'q')`)
	require.NotContains(t, enginetest.Value[string](t, p.conn, `SELECT belfry.transition_rows('u'::regclass, 'r')`), "COLLATE")
}

func (p *fixture) version() (number int) {
	p.t.Helper()
	require.NoError(p.t, p.conn.QueryRow(p.t.Context(), `SELECT current_setting('server_version_num')::int`).Scan(&number))
	return number
}

// replicator changes table t and keeps replicas of it.
type replicator struct {
	*fixture
	random *rand.Rand
	// unique is the conflict target of ON CONFLICT.
	unique string
	// all is the replica from the queue with all changes in one partition. latest is the
	// replica from the queue with one partition for each id. Both map ids to rows.
	all, latest map[string]string
	// since holds the statements that ran after the replicas were read from the table.
	since   []string
	columns int
}

func (c *replicator) table() map[string]string {
	c.t.Helper()
	rows, err := c.conn.Query(c.t.Context(), `SELECT id::text, to_jsonb(t.*)::text FROM t`)
	require.NoError(c.t, err)
	all := map[string]string{}
	var id, row string
	_, err = pgx.ForEachRow(rows, []any{&id, &row}, func() error { all[id] = row; return nil })
	require.NoError(c.t, err)
	return all
}

// reload reads the replicas from the table again. It is needed after a change of the columns.
func (c *replicator) reload() { c.all, c.latest, c.since = c.table(), c.table(), nil }

// change runs a random statement, which may fail.
func (c *replicator) change() {
	c.t.Helper()
	statement := c.statement()
	c.since = append(c.since, statement)
	if _, err := c.conn.Exec(c.t.Context(), statement); err != nil {
		c.since = append(c.since, "-- "+err.Error())
		c.exec("ROLLBACK")
	}
	if strings.HasPrefix(statement, "ALTER") {
		c.reload()
	}
}

func (c *replicator) statement() string {
	n := c.random.IntN
	some := func() string { return fmt.Sprintf("id > %d AND id %% %d = %d", n(80)-20, 1+n(6), n(3)) }
	values := func() string { // each id is in only one partition
		return fmt.Sprintf(`SELECT i, %[1]d, CASE i %% 5 WHEN 0 THEN NULL ELSE 'a' || i END, i / 7.0, jsonb_build_object('i', i, 'é', '"\'),
			'2026-01-01'::timestamptz + i * interval '1 s' FROM generate_series(%[2]d, %[3]d) AS i
			WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.id = i AND t.grp <> %[1]d)`, n(4), n(60), n(80))
	}
	const sources = `(SELECT i, i %% 4 AS grp FROM (SELECT i FROM generate_series(0, 60) AS i ORDER BY i %% %d) AS i) AS s ON t.id = s.i`
	switch n(13) {
	case 0:
		return `INSERT INTO t (id, grp, a, b, c, d) ` + values() + ` ON CONFLICT DO NOTHING`
	case 1:
		return `INSERT INTO t (id, grp, a, b, c, d) ` + values() + ` ON CONFLICT ` + c.unique + ` DO UPDATE SET a = t.a || excluded.a, b = excluded.b`
	case 2:
		return `UPDATE t SET a = a || 'x', c = c || '{"n": 1}' WHERE ` + some()
	case 3:
		return fmt.Sprintf(`UPDATE t SET grp = (grp + %d) %% 4 WHERE %s`, n(3), some())
	case 4:
		return `UPDATE t SET id = id + 1000000 WHERE id BETWEEN 0 AND 999999
			AND NOT EXISTS (SELECT 1 FROM t AS o WHERE o.id = t.id + 1000000) AND ` + some()
	case 5:
		return `DELETE FROM t WHERE ` + some()
	case 6: // from Postgres 15 on
		return `MERGE INTO t USING ` + fmt.Sprintf(sources, 1+n(7)) + ` WHEN MATCHED AND t.id % 3 = 0 THEN DELETE
			WHEN MATCHED THEN UPDATE SET a = 'merged', b = b + 1 WHEN NOT MATCHED THEN INSERT (id, grp, a) VALUES (s.i, s.grp, 'made')`
	case 7: // moved rows have insert messages
		return `MERGE INTO t USING ` + fmt.Sprintf(sources, 1+n(7)) + ` WHEN MATCHED AND t.id % 5 = 0 THEN DELETE
			WHEN MATCHED THEN UPDATE SET grp = s.grp, a = 'moved' WHEN NOT MATCHED THEN INSERT (id, grp, a) VALUES (s.i, s.grp, 'made')`
	case 8:
		return `WITH gone AS (DELETE FROM t WHERE ` + some() + ` RETURNING *),
			more AS (INSERT INTO t (id, grp, a) SELECT id + 5000000, grp, 'again' FROM gone
				 WHERE id < 1000000 AND NOT EXISTS (SELECT 1 FROM t WHERE t.id = gone.id + 5000000) ON CONFLICT DO NOTHING RETURNING *)
			UPDATE t SET b = -1 WHERE id BETWEEN 0 AND 80 AND NOT EXISTS (SELECT 1 FROM gone WHERE gone.id = t.id)`
	case 9:
		return `BEGIN; UPDATE t SET a = 'kept' WHERE ` + some() + `; SAVEPOINT s; DELETE FROM t; ROLLBACK TO s; DELETE FROM t WHERE ` + some() +
			[]string{`; COMMIT`, `; ROLLBACK`}[n(2)]
	case 10:
		return `UPDATE t SET b = s.b, grp = s.grp FROM (SELECT i, i * 1.50 AS b, i % 4 AS grp FROM generate_series(-50, 80) AS i) AS s
			WHERE s.i = t.id AND ` + some()
	case 11:
		return `SET plan_cache_mode = ` + []string{"auto", "force_generic_plan", "force_custom_plan"}[n(3)]
	default:
		c.columns++
		return []string{
			fmt.Sprintf(`ALTER TABLE t ADD COLUMN more%d int DEFAULT 7`, c.columns),
			`ALTER TABLE t ALTER COLUMN b TYPE text`,
			`ALTER TABLE t ALTER COLUMN b TYPE numeric USING b::numeric`,
			fmt.Sprintf(`ALTER TABLE t RENAME COLUMN c TO c%d; ALTER TABLE t ADD COLUMN c jsonb`, c.columns),
			`ALTER TABLE t DROP COLUMN d; ALTER TABLE t ADD COLUMN d timestamptz`,
		}[n(5)]
	}
}

// compare applies the messages to the replicas and compares the replicas with the table.
func (c *replicator) compare() {
	c.t.Helper()
	for _, line := range c.sent() {
		partition, payload, _ := strings.Cut(line, " ")
		var event struct {
			Op       string
			Row, Old map[string]json.RawMessage
		}
		require.NoError(c.t, json.Unmarshal([]byte(payload), &event))
		row, err := json.Marshal(event.Row)
		require.NoError(c.t, err)
		id, replica := string(event.Row["id"]), c.all
		switch partition {
		case "changes/Default":
			if old, changed := event.Old["id"]; changed {
				delete(c.all, string(old))
			}
		case "rows/" + id:
			replica = c.latest
		default:
			queue, column := "groups", "g"
			if strings.HasPrefix(partition, "days/") {
				queue, column = "days", "day"
			}
			var value string
			require.NoError(c.t, json.Unmarshal(event.Row[column], &value))
			require.Equal(c.t, queue+"/"+value, partition)
			if queue == "groups" {
				require.Contains(c.t, value, "a")
			}
			continue
		}
		replica[id] = string(row)
		if event.Op == "delete" {
			delete(replica, id)
		}
	}
	want, since := c.table(), strings.Join(c.since, ";\n")
	require.Len(c.t, c.all, len(want), since)
	for id, row := range want {
		require.Contains(c.t, c.all, id, since)
		require.JSONEq(c.t, row, c.all[id], since)
		require.JSONEq(c.t, row, c.latest[id], since)
	}
}
