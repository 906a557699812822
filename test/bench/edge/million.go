package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
	"github.com/belfry-mq/belfry/test/bench/rig"
)

const (
	firstPopLimit = time.Second
	newRatio      = 2
	// maxSizeRatio is the limit for a ratio of two medians. A smaller ratio is noise.
	maxSizeRatio = 1.2
	joinPatience = 10 * time.Minute
	healPatience = 10 * time.Minute
	joinInterval = 200 * time.Millisecond
)

// sqlPartitions adds partitions without messages. It writes the same rows as a push to new partitions.
const sqlPartitions = `INSERT INTO belfry.partition (queue_id, name)
	SELECT q.id, 'p' || n FROM belfry.queue q, generate_series(1, $1::integer) n WHERE q.name = 'million'`

const sqlCursors = `SELECT count(*)::int FROM belfry.cursor c
	JOIN belfry.consumer_group g ON g.id = c.group_id WHERE g.name = 'late'`

// measureMillion measures a queue with very many partitions.
func measureMillion(ctx context.Context, r *suite, out *rig.Report) (err error) {
	t, err := r.start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	if err := t.Configure(ctx, "million", nil); err != nil {
		return err
	}
	began := time.Now()
	if _, err := t.conn.Exec(ctx, sqlPartitions, t.partitions); err != nil {
		return fmt.Errorf("adding partitions: %w", err)
	}
	if _, err := t.conn.Exec(ctx, "VACUUM ANALYZE belfry.partition"); err != nil {
		return err
	}
	out.Note(fmt.Sprintf("%d partitions were added by SQL", t.partitions), rig.Millis(time.Since(began)))
	if err := t.push(ctx, "million", fmt.Sprintf("p%d", t.partitions/2), "1"); err != nil {
		return err
	}
	if err := t.join(ctx, out); err != nil {
		return err
	}
	if err := t.pushesWithMaxSize(ctx, out); err != nil {
		return err
	}
	began = time.Now()
	if err := t.restart(ctx); err != nil {
		return err
	}
	out.Note("restart, until the server answers", rig.Millis(time.Since(began)))
	if err := t.waitHealed(ctx); err != nil {
		return err
	}
	out.Note("from the start of the restart until the heal has finished", rig.Millis(time.Since(began)))
	return nil
}

// join pops as a new group. During that pop it pushes to new partitions.
func (t *trial) join(ctx context.Context, out *rig.Report) error {
	created := func(prefix string) func(n int) string {
		return func(n int) string { return prefix + strconv.Itoa(n) }
	}
	if _, err := t.timePushes(ctx, time.Second, "million", created("warm")); err != nil {
		return err
	}
	quiet, err := t.timePushes(ctx, t.quiet, "million", created("quiet"))
	if err != nil {
		return err
	}
	workers := load.NewWorkers(ctx)
	var first time.Duration
	var failed error
	var status int
	workers.Go(func(ctx context.Context) error {
		began := time.Now()
		resp, err := t.Call(ctx, http.MethodGet, "/api/v1/pop/queue/million?consumerGroup=late&wait=true&timeout=20000", nil, nil)
		first, failed, status = time.Since(began), err, resp.Status
		return nil
	})
	var joined time.Duration
	workers.Go(func(ctx context.Context) (err error) {
		joined, err = t.waitJoined(ctx)
		return err
	})
	during, err := t.timePushes(ctx, t.quiet, "million", created("during"))
	if err = errors.Join(err, workers.Wait()); err != nil {
		return err
	}
	out.Limit("first pop of a new group: status", fmt.Sprint(status), "200", status == http.StatusOK)
	if failed != nil {
		out.Note("error of the pop", failed.Error())
	}
	out.Within("first pop of a new group", first, firstPopLimit)
	out.Note("time until the group has cursors in all partitions", rig.Millis(joined))
	pushesFailed(out, "during the join", during)
	out.Ratio("p99 of pushes to new partitions", during.Quantile(0.99), quiet.Quantile(0.99), newRatio)
	return nil
}

// waitJoined blocks until the group has a cursor in each partition that SQL added.
func (t *trial) waitJoined(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	for {
		n, err := t.number(ctx, sqlCursors)
		switch took := time.Since(began); {
		case err != nil:
			return 0, err
		case n >= t.partitions:
			return took, nil
		case took > joinPatience:
			return 0, fmt.Errorf("the group has %d cursors for %d partitions after %s", n, t.partitions, took)
		}
		if err := load.Pause(ctx, joinInterval); err != nil {
			return 0, err
		}
	}
}

// pushesWithMaxSize compares pushes with and without maxSize. The two alternate.
func (t *trial) pushesWithMaxSize(ctx context.Context, out *rig.Report) error {
	const rounds = 4
	without, with := timing{Times: load.NewTimes()}, timing{Times: load.NewTimes()}
	for round := range 2 * rounds {
		size, times := 0, &without
		if round%2 == 1 {
			size, times = 1_000_000_000, &with
		}
		if err := t.Configure(ctx, "million", map[string]int{"maxSize": size}); err != nil {
			return err
		}
		one, err := t.timePushes(ctx, t.quiet/rounds, "million", func(n int) string { return fmt.Sprintf("p%d", 1+n%t.partitions) })
		if err != nil {
			return err
		}
		times.Merge(one.Times)
		if times.failed += one.failed; one.failed > 0 {
			times.example = one.example
		}
	}
	pushesFailed(out, "without maxSize", without)
	pushesFailed(out, "with maxSize", with)
	out.Ratio("p50 of pushes with maxSize", with.Quantile(0.5), without.Quantile(0.5), maxSizeRatio)
	out.Ratio("p99 of pushes with maxSize", with.Quantile(0.99), without.Quantile(0.99), newRatio)
	return nil
}

// waitHealed blocks until the server has searched all cursors once.
func (t *trial) waitHealed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healPatience)
	defer cancel()
	for {
		var text bytes.Buffer
		if _, err := t.Do(ctx, http.MethodGet, t.URL("/metrics/prometheus"), nil, &text); err != nil {
			return err
		}
		for line := range strings.Lines(text.String()) {
			if n, ok := strings.CutPrefix(strings.TrimSpace(line), "belfry_heals_total "); ok && n != "0" {
				return nil
			}
		}
		if err := load.Pause(ctx, memoryInterval); err != nil {
			return fmt.Errorf("waiting for the heal: %w", err)
		}
	}
}
