package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/sql"
)

const (
	// statementLook is the pause between two looks at the statistics.
	statementLook = 100 * time.Millisecond
	// quietPatience bounds the wait for a database to come to rest.
	quietPatience = time.Minute
	// canary names the listener's notification to itself, which is its heartbeat
	// and touches no table.
	canary = "canary"
)

// statement is one kind of statement and how often it ran.
type statement struct {
	name  string
	calls int
	// spent is the time all calls took on the server.
	spent time.Duration
}

// forget empties the statistics of a database.
func (r *rig) forget(ctx context.Context, database string) error {
	const query = `SELECT pg_stat_statements_reset(0, d.oid, 0) FROM pg_database d WHERE d.datname = $1`
	if _, err := r.admin.Exec(ctx, query, database); err != nil {
		return fmt.Errorf("emptying pg_stat_statements: %w", err)
	}
	return nil
}

// statements returns what ran in a database since forget, the most frequent
// first. Beginning and ending a transaction is not counted: it never comes alone.
func (r *rig) statements(ctx context.Context, database string) ([]statement, error) {
	const query = `
		SELECT s.query, s.calls, s.total_exec_time
		  FROM pg_stat_statements s
		  JOIN pg_database d ON d.oid = s.dbid
		 WHERE d.datname = $1`
	rows, err := r.admin.Query(ctx, query, database)
	if err != nil {
		return nil, fmt.Errorf("reading pg_stat_statements: %w", err)
	}
	var text string
	var calls int64
	var spent float64
	byName := map[string]statement{}
	_, err = pgx.ForEachRow(rows, []any{&text, &calls, &spent}, func() error {
		name := statementName(text)
		if isFrame(name) {
			return nil
		}
		s := byName[name]
		byName[name] = statement{name, s.calls + int(calls), s.spent + time.Duration(spent*float64(time.Millisecond))}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading pg_stat_statements: %w", err)
	}
	var all []statement
	for _, s := range byName {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b statement) int {
		if a.calls != b.calls {
			return b.calls - a.calls
		}
		return strings.Compare(a.name, b.name)
	})
	return all, nil
}

// openings maps the first line of each query file, a comment of its own, to the
// name of the file.
var openings = readOpenings()

func readOpenings() map[string]string {
	files, err := fs.Glob(sql.Queries, "queries/*/*.sql")
	if err != nil {
		panic("bench: the pattern of the query files is wrong: " + err.Error())
	}
	names := map[string]string{}
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(file, "queries/"), ".sql")
		names[firstLine(sql.Query(name))] = name
	}
	return names
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(line)
}

// statementName returns the name of the query file a statement is from, canary,
// or the beginning of any other statement.
func statementName(text string) string {
	line := firstLine(text)
	if name, ok := openings[line]; ok {
		return name
	}
	if strings.Contains(text, "pg_notify") {
		return canary
	}
	if flat := strings.Join(strings.Fields(text), " "); len(flat) > 60 {
		return flat[:60] + "..."
	}
	return line
}

func isFrame(name string) bool {
	word, _, _ := strings.Cut(strings.ToLower(strings.TrimSuffix(name, ";")), " ")
	return slices.Contains([]string{"begin", "commit", "rollback", "start"}, word)
}

// callsOf returns how often the statements of these names ran.
func callsOf(all []statement, names ...string) int {
	calls := 0
	for _, s := range all {
		if slices.Contains(names, s.name) {
			calls += s.calls
		}
	}
	return calls
}

// work returns all but the canaries.
func work(all []statement) []statement {
	return slices.DeleteFunc(slices.Clone(all), func(s statement) bool { return s.name == canary })
}

func total(all []statement) int {
	calls := 0
	for _, s := range all {
		calls += s.calls
	}
	return calls
}

// describe lists statements: the calls for each of n messages and the mean time
// of a call.
func describe(all []statement, n int) string {
	var parts []string
	for _, s := range all {
		mean := s.spent / time.Duration(max(1, s.calls))
		parts = append(parts, fmt.Sprintf("%s %.2f (%s)", s.name, float64(s.calls)/float64(max(1, n)), millis(mean)))
	}
	return strings.Join(parts, ", ")
}

// list names statements and their calls.
func list(all []statement) string {
	var parts []string
	for _, s := range all {
		parts = append(parts, fmt.Sprintf("%d x %s", s.calls, s.name))
	}
	return strings.Join(parts, ", ")
}

var errNoRest = errors.New("the database did not come to rest: statements kept coming although nothing was asked for")

// quiet returns once no statement but canaries has run for the given time.
func (r *rig) quiet(ctx context.Context, database string, rest time.Duration) error {
	deadline := time.Now().Add(quietPatience)
	calls, since := -1, time.Now()
	for {
		all, err := r.statements(ctx, database)
		if err != nil {
			return err
		}
		switch now := total(work(all)); {
		case now != calls:
			calls, since = now, time.Now()
		case time.Since(since) >= rest:
			return nil
		case time.Now().After(deadline):
			return errNoRest
		}
		if err := pause(ctx, statementLook); err != nil {
			return err
		}
	}
}
