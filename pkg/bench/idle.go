package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// runIdle: requests wait, nothing comes, and the database is looked at.
func runIdle(ctx context.Context, t *trial) error {
	t.openBook(1)
	consumers := newCrew(ctx)
	defer consumers.leave()
	for range t.Connections {
		c := t.consumer(0, 1, 1, t.AutoAck)
		consumers.join(func(ctx context.Context) { c.loop(ctx, false) })
	}
	if err := pause(ctx, t.Warmup); err != nil {
		return err
	}
	before, whyNot := statements(ctx, t.DatabaseURL)
	asked, started := t.meter.requests.Load(), time.Now()
	t.meter.frame(started, time.Time{})
	err := pause(ctx, t.Duration)
	ended := time.Now()
	t.meter.end(ended)
	note := func(format string, args ...any) {
		t.result.Notes = append(t.result.Notes, fmt.Sprintf(format, args...))
	}
	note("%d requests waited for %s and %d were sent again", t.Connections, ended.Sub(started).Round(time.Millisecond), t.meter.requests.Load()-asked)
	after := map[string]int64{}
	if whyNot == nil {
		after, whyNot = statements(context.WithoutCancel(ctx), t.DatabaseURL)
	}
	if whyNot != nil {
		note("statements at the database were not counted: %s", whyNot)
	} else {
		n, text := difference(before, after)
		t.result.Statements = &n
		note("%d statements reached the database%s", n, text)
	}
	t.judged = err == nil
	return err
}

var (
	errNoDatabase  = errors.New("--database-url is not set")
	errNoExtension = errors.New("the database has no extension pg_stat_statements")
)

// statements returns how often each statement has run in the database so far,
// but for those that ask this.
func statements(ctx context.Context, database string) (calls map[string]int64, err error) {
	if database == "" {
		return nil, errNoDatabase
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return nil, fmt.Errorf("connecting to the database: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	var there bool
	const look = `SELECT EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'pg_stat_statements')`
	if err := conn.QueryRow(ctx, look).Scan(&there); err != nil {
		return nil, fmt.Errorf("looking for pg_stat_statements: %w", err)
	}
	if !there {
		return nil, errNoExtension
	}
	const query = `
		SELECT s.query, sum(s.calls)::bigint
		  FROM pg_stat_statements s
		  JOIN pg_database d ON d.oid = s.dbid
		 WHERE d.datname = current_database() AND s.query NOT LIKE '%pg_stat_statements%'
		   AND s.query NOT LIKE '%pg_extension%'
		 GROUP BY s.query`
	rows, err := conn.Query(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("reading pg_stat_statements: %w", err)
	}
	calls = map[string]int64{}
	var text string
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&text, &n}, func() error {
		calls[text] = n
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading pg_stat_statements: %w", err)
	}
	return calls, nil
}

// difference returns how many statements ran in between, and what the most
// frequent were.
func difference(before, after map[string]int64) (total int64, text string) {
	more := map[string]int64{}
	for statement, n := range after {
		if n -= before[statement]; n > 0 {
			more[statement] = n
			total += n
		}
	}
	names := slices.SortedFunc(maps.Keys(more), func(a, b string) int {
		return cmp.Or(cmp.Compare(more[b], more[a]), cmp.Compare(a, b))
	})
	const most, long = 5, 60
	var parts []string
	for _, name := range names[:min(most, len(names))] {
		flat := strings.Join(strings.Fields(name), " ")
		if len(flat) > long {
			flat = strings.ToValidUTF8(flat[:long], "") + "..."
		}
		parts = append(parts, fmt.Sprintf("%d x %s", more[name], flat))
	}
	if len(parts) == 0 {
		return total, ""
	}
	return total, ": " + strings.Join(parts, "; ")
}
