package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
	"github.com/belfry-mq/belfry/sql"
	"github.com/belfry-mq/belfry/test/bench/rig"
)

const (
	// statementInterval is the time between two readings of the statistics.
	statementInterval = 100 * time.Millisecond
	// quietPatience limits the wait for a database without statements.
	quietPatience = time.Minute
	// canary is the name of the notification that the listener sends to itself as a heartbeat. It uses no table.
	canary = "canary"
)

// statements returns the statements since the last reset by name, the most frequent first. It leaves out statements that
// begin or end a transaction, because they never run without another statement.
func (t *trial) statements(ctx context.Context) ([]load.Statement, error) {
	all, err := load.Statements(ctx, t.admin, t.database)
	if err != nil {
		return nil, err
	}
	byName := map[string]load.Statement{}
	for _, s := range all {
		name := statementName(s.Text)
		if !isFrame(name) {
			sum := byName[name]
			byName[name] = load.Statement{Text: name, Calls: sum.Calls + s.Calls, Spent: sum.Spent + s.Spent}
		}
	}
	named := slices.Collect(maps.Values(byName))
	load.SortStatements(named)
	return named, nil
}

// openings maps the first line of each query file to the name of the file. The first line is a unique comment.
var openings = readOpenings()

func readOpenings() map[string]string {
	names := map[string]string{}
	for _, name := range sql.Names() {
		names[firstLine(sql.Query(name))] = name
	}
	return names
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(line)
}

// statementName returns a name for a statement: the name of its query file, or canary, or the beginning of the text.
func statementName(text string) string {
	line := firstLine(text)
	if name, ok := openings[line]; ok {
		return name
	}
	if strings.Contains(text, "pg_notify") {
		return canary
	}
	return load.ShortStatement(text)
}

// isFrame reports whether a statement begins or ends a transaction.
func isFrame(name string) bool {
	word, _, _ := strings.Cut(strings.ToLower(strings.TrimSuffix(name, ";")), " ")
	return slices.Contains([]string{"begin", "commit", "rollback", "start"}, word)
}

// callsOf returns the calls of the named statements.
func callsOf(all []load.Statement, names ...string) int {
	calls := 0
	for _, s := range all {
		if slices.Contains(names, s.Text) {
			calls += s.Calls
		}
	}
	return calls
}

// withoutCanaries returns all statements except canaries.
func withoutCanaries(all []load.Statement) []load.Statement {
	return slices.DeleteFunc(slices.Clone(all), func(s load.Statement) bool { return s.Text == canary })
}

func total(all []load.Statement) int {
	calls := 0
	for _, s := range all {
		calls += s.Calls
	}
	return calls
}

// describe lists how often each statement ran per message, for n messages, and the mean time of a call.
func describe(all []load.Statement, n int) string {
	var parts []string
	for _, s := range all {
		mean := s.Spent / time.Duration(max(1, s.Calls))
		parts = append(parts, fmt.Sprintf("%s %.2f (%s)", s.Text, float64(s.Calls)/float64(max(1, n)), rig.Millis(mean)))
	}
	return strings.Join(parts, ", ")
}

// list lists how often each statement ran.
func list(all []load.Statement) string {
	var parts []string
	for _, s := range all {
		parts = append(parts, fmt.Sprintf("%d x %s", s.Calls, s.Text))
	}
	return strings.Join(parts, ", ")
}

var errNotQuiet = errors.New("statements kept running although no request was sent")

// waitQuiet blocks until no statement except canaries has run for the given time.
func (t *trial) waitQuiet(ctx context.Context, rest time.Duration) error {
	deadline := time.Now().Add(quietPatience)
	calls, since := -1, time.Now()
	for {
		all, err := t.statements(ctx)
		if err != nil {
			return err
		}
		switch now := total(withoutCanaries(all)); {
		case now != calls:
			calls, since = now, time.Now()
		case time.Since(since) >= rest:
			return nil
		case time.Now().After(deadline):
			return errNotQuiet
		}
		if err := load.Pause(ctx, statementInterval); err != nil {
			return err
		}
	}
}
