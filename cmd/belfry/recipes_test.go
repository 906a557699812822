//go:build !release

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/pgtest"
)

const recipesPage = "../../docs/recipes.md"

// kitchen is a server with a database, on which a test runs the blocks of a page.
type kitchen struct {
	*shell
	db   *pgx.Conn
	stop func() // ends the server
}

func newKitchen(t *testing.T) *kitchen {
	t.Helper()
	dsn := pgtest.Database(t)
	k := &kitchen{shell: newShell(t, "BELFRY_CONFIG=", "BELFRY_LOG_FORMAT=json", "BELFRY_HTTP_DRAIN_DELAY=0s", "BELFRY_SPOOL_DIR="+t.TempDir(), "BELFRY_DATABASE_URL="+dsn)}
	var addr string
	addr, k.stop = k.start("belfry serve", serving)
	k.env = append(k.env, "BELFRY_SERVER=http://"+addr)
	var err error
	k.db, err = pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.db.Close(context.WithoutCancel(t.Context()))) })
	return k
}

// sql runs statements as psql does, and returns the values of all rows with a space between them.
func (k *kitchen) sql(statements string) string {
	k.t.Helper()
	results, err := k.db.PgConn().Exec(k.t.Context(), statements).ReadAll()
	require.NoError(k.t, err, statements)
	var values []string
	for _, result := range results {
		for _, row := range result.Rows {
			for _, value := range row {
				values = append(values, string(value))
			}
		}
	}
	return strings.Join(values, " ")
}

// pop waits for a message of a queue, and returns the message without spaces.
func (k *kitchen) pop(arguments string) string {
	k.t.Helper()
	return strings.ReplaceAll(k.run("belfry pop "+arguments+" --wait 10s -o ndjson"), " ", "")
}

// until repeats a command until its output contains a text.
func (k *kitchen) until(want string, run func() string) {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), patience)
	defer cancel()
	last := run()
	for !strings.Contains(last, want) && ctx.Err() == nil {
		last = run()
	}
	require.Contains(k.t, last, want)
}

// The pages say minutes and days, and the test waits for seconds.
var sooner = strings.NewReplacer("interval '1 minute'", "interval '1 second'", "interval '2 minutes'", "interval '1 second'", "windowBuffer=60", "windowBuffer=4", "+2 minutes", "+2 seconds", "--queue alarms --at", "--queue alarms --partition other --at")

// recipe says what the blocks of a section print. then is run after the blocks, and shows that the recipe keeps its promise.
type recipe struct {
	want []string
	then func(k *kitchen)
}

var recipes = map[string]recipe{
	"A daily report": {[]string{"T", "sales", `The next message of the schedule "daily-report" comes at 20`}, func(k *kitchen) {
		k.sql(`UPDATE belfry.schedule SET handled_to = handled_to - interval '7 days', due_at = '-infinity', changed_at = clock_timestamp() WHERE name = 'daily-report'`)
		require.Regexp(k.t, `"data":{"for":"20[-0-9]+T0[67]:00:00Z"`, k.pop("reports --group reporter"), "the last missed report")
	}},
	"A reminder that moves with the appointment": {[]string{"t f t", "appointment-18"}, func(k *kitchen) {
		require.Equal(k.t, "0", k.sql(`SELECT count(*) FROM belfry.message WHERE transaction_id LIKE 'appointment-%'`), "the reminder is deleted")
	}},
	"Only the last event of a minute": {[]string{"t f", `{"price":11,"product":7} belfry ack`}, func(k *kitchen) {
		require.Contains(k.t, k.pop("search --group indexer"), `"price":11`)
		require.Equal(k.t, "1", k.sql(`SELECT count(*) FROM belfry.message m JOIN belfry.partition p ON p.id = m.partition_id JOIN belfry.queue q ON q.id = p.queue_id WHERE q.name = 'search'`))
		k.run(`belfry push changes 20 --partition product-8; belfry push changes 21 --partition product-8`)
		require.Empty(k.t, k.run("belfry pop changes --group other --partition product-8 -o ndjson 2>/dev/null || [ $? = 4 ]"), "the window is open")
		require.Regexp(k.t, `"data":20,.+"data":21,`, k.pop("changes --group other --partition product-8 --batch 1000"))
	}},
	"A heartbeat that raises an alarm": {[]string{"t", "silent-worker-8", "worker-7"}, func(k *kitchen) {
		require.Contains(k.t, k.pop("alarms --group pager --partition other"), "worker-8")
		k.sql(`SELECT belfry.unschedule('silent-worker-7')`)
		k.run("belfry schedule delete silent-worker-8 --yes")
	}},
}

// Every recipe must work as docs/recipes.md says.
func TestRecipes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(recipesPage)
	require.NoError(t, err)
	k := newKitchen(t)
	defer k.stop()
	done := 0
	for _, part := range strings.Split(string(text), "\n## ")[1:] {
		title, body, _ := strings.Cut(part, "\n")
		want, known := recipes[title]
		require.True(t, known, "%s has no entry in recipes", title)
		k.cook(title, body, want.want)
		want.then(k)
		done++
	}
	require.Len(t, recipes, done)
}

// cook runs the blocks of a section.
func (k *kitchen) cook(title, body string, want []string) {
	k.t.Helper()
	n := 0
	for _, block := range fence.FindAllStringSubmatch(body, -1) {
		language, script := block[1], sooner.Replace(block[2])
		require.Less(k.t, n, len(want), "%s has more blocks than its entry", title)
		run := func() string { return k.run(script) }
		if language == "sql" {
			run = func() string { return k.sql(script) }
		}
		k.t.Logf("%s: block %d", title, n)
		if strings.HasPrefix(script, "belfry explain") || strings.HasPrefix(script, "SELECT name") {
			k.until(want[n], run)
		} else {
			require.Contains(k.t, run(), want[n], script)
		}
		n++
	}
	require.Len(k.t, want, n, title)
}

// The SQL of the section Schedules runs as docs/sql.md shows it.
func TestSQLOfSchedules(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/sql.md")
	require.NoError(t, err)
	_, body, _ := strings.Cut(string(text), "\n## Schedules\n")
	body, _, _ = strings.Cut(body, "\n## ")
	k := newKitchen(t)
	defer k.stop()
	k.cook("Schedules", body, []string{"t t t daily-report"})
}

// A delayed message that each event moves is no debounce, as docs/recipes.md says.
func TestAMovedMessageKeepsItsPayload(t *testing.T) {
	t.Parallel()
	k := newKitchen(t)
	defer k.stop()
	push := func(price int) {
		k.run(fmt.Sprintf(`belfry push moved '{"price": %d}' --transaction-id product-7 --delay 1h`, price))
		id := k.sql(`SELECT p.uid FROM belfry.partition p JOIN belfry.queue q ON q.id = p.queue_id WHERE q.name = 'moved'`)
		k.run("belfry messages move " + id + " product-7 --to now --if-exists || [ $? = 1 ]")
	}
	push(10)
	push(11)
	require.Contains(t, k.pop("moved --group indexer --auto-ack"), `"price":10`, "the payload of the first event")
	push(12)
	require.Empty(t, k.run("belfry pop moved --group indexer -o ndjson 2>/dev/null || [ $? = 4 ]"), "the transaction id is still used")
}
