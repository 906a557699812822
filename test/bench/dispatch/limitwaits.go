package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
	"github.com/belfry-mq/belfry/test/bench/rig"
)

const (
	refillTarget = 10 * time.Millisecond
	// refillWarm is the number of refills that fill caches and are not counted.
	refillWarm = 20
)

// waitGroups are the groups of the waiting requests: one with a token every 100 ms, one whose only token is taken, and one whose only
// place has a lease.
var waitGroups = []limitedGroup{
	{"refilled", "rate_messages = 10, rate_per = '1 s', rate_burst = 1"},
	{"no token", "rate_messages = 1, rate_per = '24 h', rate_burst = 1"},
	{"no place", "concurrency = 1"},
}

func escaped(group string) string { return url.QueryEscape(group) }

// measureRefills measures the time from the instant of a token, by the row of the bucket, to the arrival of its message at a waiting
// consumer.
func measureRefills(ctx context.Context, r *suite, out *rig.Report) (err error) {
	l, err := r.startLimits(ctx, waitGroups)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.stop()) }()
	group := waitGroups[0].name
	late, early, empty := load.NewTimes(), 0, 0
	var token time.Time
	for i := range r.samples + refillWarm {
		d, err := l.popLimited(ctx, group, longWait)
		if err != nil {
			return err
		}
		arrived := time.Now()
		switch {
		case len(d.Messages) == 0:
			empty++
			continue
		case i < refillWarm:
		case arrived.Before(token):
			early++
		default:
			late.Add(arrived.Sub(token))
		}
		// The next token comes when the bucket is full again, because its burst is 1.
		if err := l.sql.QueryRow(ctx, `SELECT b.full_at FROM belfry.limit_bucket b JOIN belfry.consumer_group g ON g.id = b.group_id WHERE g.name = $1`, group).Scan(&token); err != nil {
			return fmt.Errorf("reading a bucket: %w", err)
		}
		if err := l.ackLimited(ctx, group, d); err != nil {
			return err
		}
	}
	out.Never("delivered before the instant of the token", early)
	out.Never("empty answers", empty)
	out.NoteTime(fmt.Sprintf("lateness after %d refills, p50", late.Count()), late, 0.5)
	out.Quick("lateness after a refill, p99", late.Quantile(0.99), refillTarget)
	return nil
}

// measureLimited measures the statements for many requests that wait on groups whose limits allow nothing.
func measureLimited(ctx context.Context, r *suite, out *rig.Report) (err error) {
	if err := enoughFiles(idleRequests); err != nil {
		return err
	}
	l, err := r.startLimits(ctx, waitGroups)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.stop()) }()
	closed := waitGroups[1:]
	for _, g := range closed {
		if d, err := l.popLimited(ctx, g.name, time.Minute); err != nil || len(d.Messages) == 0 {
			return errors.Join(err, fmt.Errorf("the first pop of %q returned nothing: %w", g.name, errNotQuiet))
		}
	}
	waiting := load.NewWorkers(ctx)
	for i := range idleRequests {
		waiting.Go(func(ctx context.Context) error {
			d, err := l.popLimited(ctx, closed[i%len(closed)].name, longWait)
			if err == nil && len(d.Messages) > 0 {
				err = fmt.Errorf("%s: %v: %w", closed[i%len(closed)].name, d, errUnexpectedMessages)
			}
			return err
		})
	}
	defer func() { err = errors.Join(err, waiting.Stop()) }()
	if err := l.waitArrived(ctx, l.servers[0], idleRequests); err != nil {
		return err
	}
	if err := l.waitWritten(ctx); err != nil {
		return err
	}
	if err := l.startMeasuring(ctx); err != nil {
		return err
	}
	if err := load.Pause(ctx, r.idleFor); err != nil {
		return err
	}
	all, err := l.statements(ctx)
	if err != nil {
		return err
	}
	asked := slices.DeleteFunc(withoutCanaries(all), isTimed)
	out.Count(fmt.Sprintf("%d waiting on limited groups, statements in %s", idleRequests, r.idleFor), total(asked), 0)
	if len(asked) > 0 {
		out.Remark("the statements (without timed ones)", list(asked))
	}
	return nil
}
