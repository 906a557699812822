package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
)

const (
	// wakeGap is the minimum time between two pushes, in which all consumers start to wait again. wakeSpread is the
	// maximum of a random time that is added, so that the pushes do not coincide with other periodic work.
	wakeGap    = 300 * time.Millisecond
	wakeSpread = 50 * time.Millisecond
	// herdPause is the time in which a wrong second delivery of the same message is noticed.
	herdPause = 200 * time.Millisecond
)

// runWake measures waiting consumers that receive a message every 0.3 s.
func runWake(ctx context.Context, t *trial) error {
	return t.oneByOne(ctx, func(ctx context.Context) error { return load.Pause(ctx, wakeGap+rand.N(wakeSpread)) })
}

// runHerd measures consumers that all wait in one group. The ledger detects a message that two consumers receive.
func runHerd(ctx context.Context, t *trial) error {
	t.Traffic.Groups = []string{"herd"}
	return t.oneByOne(ctx, func(ctx context.Context) error { return load.Pause(ctx, herdPause) })
}

// oneByOne pushes a message, waits for its delivery, and pauses before the next push. It must wait for the delivery,
// because the next push could wake a consumer that missed this message.
func (t *trial) oneByOne(ctx context.Context, between func(ctx context.Context) error) error {
	t.openLedger(1, true)
	consumers := t.startConsumers(ctx, t.Connections, load.PopOptions{Batch: 10, Partitions: 1, AutoAck: t.AutoAck})
	producer := t.NewProducer(0)
	from := time.Now().Add(t.Warmup)
	until := from.Add(t.Duration)
	t.Meter.Measure(from, until)
	// In the first half of the warmup the consumers connect. In the second half the caches of the server fill.
	err := load.Pause(ctx, t.Warmup/2)
	for err == nil && time.Now().Before(until) {
		if _, failed := producer.Push(ctx, time.Now()); failed != nil {
			err = load.Pause(ctx, load.AfterError)
			continue
		}
		var delivered bool
		if delivered, err = t.Ledger.WaitDrained(ctx, t.Patience); err == nil && !delivered {
			break
		}
		if err == nil {
			err = between(ctx)
		}
	}
	if err != nil {
		return errors.Join(err, consumers.Stop())
	}
	return t.drain(ctx, consumers)
}

// runIdle keeps requests waiting while no message arrives. It counts the statements in the database.
func runIdle(ctx context.Context, t *trial) (err error) {
	t.openLedger(1, false)
	consumers := t.startConsumers(ctx, t.Connections, load.PopOptions{Batch: 1, Partitions: 1, AutoAck: t.AutoAck})
	defer func() { err = errors.Join(err, consumers.Stop()) }()
	if err := load.Pause(ctx, t.Warmup); err != nil {
		return err
	}
	before, failed := statements(ctx, t.DatabaseURL)
	requestsBefore := t.Meter.Requests.Load()
	started := time.Now()
	t.Meter.Measure(started, time.Time{})
	err = load.Pause(ctx, t.Duration)
	ended := time.Now()
	t.Meter.End(ended)
	again := t.Meter.Requests.Load() - requestsBefore
	t.note("%d requests waited for %s, and %d requests were sent again", t.Connections, ended.Sub(started).Round(time.Millisecond), again)
	var after []load.Statement
	if failed == nil {
		after, failed = statements(context.WithoutCancel(ctx), t.DatabaseURL)
	}
	if failed != nil {
		t.note("statements in the database were not counted: %s", failed)
	} else {
		n, text := difference(before, after)
		t.result.Statements = &n
		t.note("%s", text)
	}
	t.judged = err == nil
	return err
}

// statements returns the statements that the database has executed so far.
func statements(ctx context.Context, url string) (all []load.Statement, err error) {
	if url == "" {
		return nil, errors.New("--database-url is not set")
	}
	ctx, cancel := context.WithTimeout(ctx, load.RequestTimeout)
	defer cancel()
	conns, err := connect(ctx, url, 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conns.close()) }()
	return load.Statements(ctx, conns[0], conns[0].Config().Database)
}

// difference returns the number of statements that ran between two snapshots, and a text with the five most frequent
// statements.
func difference(first, second []load.Statement) (total int64, text string) {
	earlier := map[string]int{}
	for _, s := range first {
		earlier[s.Text] = s.Calls
	}
	var more []load.Statement
	for _, s := range second {
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
	text = fmt.Sprintf("the database executed %d statements", total)
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, "; ")
	}
	return total, text
}
