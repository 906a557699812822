package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/bench/load"
)

// runIdle: requests wait and no message arrives. It counts the statements at the database.
func runIdle(ctx context.Context, t *trial) (err error) {
	t.openLedger(1, false)
	consumers := t.startConsumers(ctx, t.Connections, func(group int) load.PopOptions {
		return load.PopOptions{Queue: t.queue, Group: group, Batch: 1, Partitions: 1, AutoAck: t.AutoAck}
	})
	defer func() { err = errors.Join(err, consumers.Stop()) }()
	if err := load.Pause(ctx, t.Warmup); err != nil {
		return err
	}
	before, failed := statements(ctx, t.DatabaseURL)
	_, _, requestsBefore, _ := t.Meter.Totals()
	started := time.Now()
	t.Meter.Measure(started, time.Time{})
	err = load.Pause(ctx, t.Duration)
	ended := time.Now()
	t.Meter.End(ended)
	_, _, requests, _ := t.Meter.Totals()
	t.note("%d requests waited for %s and %d were sent again", t.Connections, ended.Sub(started).Round(time.Millisecond), requests-requestsBefore)
	var after []load.Statement
	if failed == nil {
		after, failed = statements(context.WithoutCancel(ctx), t.DatabaseURL)
	}
	if failed != nil {
		t.note("statements at the database were not counted: %s", failed)
	} else {
		n, text := difference(before, after)
		t.result.Statements = &n
		t.note("%d statements reached the database%s", n, text)
	}
	t.judged = err == nil
	return err
}

var errNoDatabase = errors.New("--database-url is not set")

// statements returns the statements of the database so far.
func statements(ctx context.Context, url string) (all []load.Statement, err error) {
	if url == "" {
		return nil, errNoDatabase
	}
	ctx, cancel := context.WithTimeout(ctx, load.RequestTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("connecting to the database: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	return load.Statements(ctx, conn, conn.Config().Database)
}

// difference returns how many statements ran between two looks, and the most frequent ones.
func difference(before, after []load.Statement) (total int64, text string) {
	earlier := map[string]int{}
	for _, s := range before {
		earlier[s.Text] = s.Calls
	}
	var more []load.Statement
	for _, s := range after {
		if s.Calls -= earlier[s.Text]; s.Calls > 0 {
			more = append(more, s)
			total += int64(s.Calls)
		}
	}
	load.SortStatements(more)
	const most = 5
	var parts []string
	for _, s := range more[:min(most, len(more))] {
		parts = append(parts, fmt.Sprintf("%d x %s", s.Calls, load.ShortStatement(s.Text)))
	}
	if len(parts) == 0 {
		return total, ""
	}
	return total, ": " + strings.Join(parts, "; ")
}
