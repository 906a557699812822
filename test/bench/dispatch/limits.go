package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
	"github.com/belfry-mq/belfry/test/bench/rig"
)

const (
	limitedQueue = "limited"
	// limitPartitions and limitMessages are the partitions of the queue and the messages of each.
	limitPartitions = 400
	limitMessages   = 1000
	limitConsumers  = 8
	// limitTurn is how long one group is measured before the next.
	limitTurn = 2 * time.Second
	// Targets for the rate of a limited group, as a share of that of a group without limits.
	bindingShare, looseShare = 0.7, 0.95
)

// limitedGroup is a group of the measure with the columns of its limits.
type limitedGroup struct{ name, limits string }

// costGroups are the groups whose rates are compared. The first one has no limits.
var costGroups = []limitedGroup{
	{"free", ""},
	{"no limit binds", "concurrency = 10000, rate_messages = 1000000, rate_per = '1 s', rate_burst = 1000000"},
	{"a concurrency that does not bind", "concurrency = 10000"},
	{"a rate that does not bind", "rate_messages = 1000000, rate_per = '1 s', rate_burst = 1000000"},
	{"as many places as consumers", fmt.Sprintf("concurrency = %d", limitConsumers)},
	{"both, as many places as consumers", fmt.Sprintf("concurrency = %d, rate_messages = 1000000, rate_per = '1 s', rate_burst = 1000000", limitConsumers)},
}

// limitStatements make the messages, the groups and their limits.
func limitStatements(groups []limitedGroup) []string {
	statements := []string{
		fmt.Sprintf(`INSERT INTO belfry.partition (queue_id, name, last_seq, last_push_at)
			SELECT q.id, 'p' || i, %d, now() FROM belfry.queue q, generate_series(1, %d) AS i WHERE q.name = '%s'`, limitMessages, limitPartitions, limitedQueue),
		fmt.Sprintf(`INSERT INTO belfry.message (partition_id, seq, created_at, id, transaction_id, payload)
			SELECT p.id, i, now(), gen_random_uuid(), 'm' || i, '{}' FROM belfry.partition p, generate_series(1, %d) AS i WHERE p.last_seq > 0`, limitMessages),
	}
	for _, g := range groups {
		statements = append(statements, fmt.Sprintf(`SELECT belfry.subscribe('%s', '%s', 'all')`, limitedQueue, g.name))
		if g.limits != "" {
			statements = append(statements,
				fmt.Sprintf(`INSERT INTO belfry.group_limit (queue_id, group_name) SELECT q.id, '%s' FROM belfry.queue q WHERE q.name = '%s'`, g.name, limitedQueue),
				fmt.Sprintf(`UPDATE belfry.group_limit SET %s WHERE group_name = '%s'`, g.limits, g.name))
		}
	}
	return append(statements,
		`UPDATE belfry.consumer_group g SET limits_id = belfry.limits_of(g.queue_id, g.name)`, `VACUUM (ANALYZE)`)
}

// limits is a trial with limited groups.
type limits struct {
	*trial
	sql *pgx.Conn
}

func (r *suite) startLimits(ctx context.Context, groups []limitedGroup) (*limits, error) {
	t, err := r.start(ctx, 1, []string{""}, nil)
	if err != nil {
		return nil, err
	}
	l := &limits{trial: t}
	if err = createQueues(ctx, t.Client, []string{limitedQueue}, map[string]int{"leaseTime": 3600}); err == nil {
		l.sql, err = pgx.Connect(ctx, r.cluster.URL(t.database))
	}
	for _, statement := range limitStatements(groups) {
		if err == nil {
			_, err = l.sql.Exec(ctx, statement)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making limited groups: %w", err), l.stop())
	}
	return l, nil
}

func (l *limits) stop() (err error) {
	if l.sql != nil {
		err = l.sql.Close(context.Background())
	}
	return errors.Join(err, l.trial.stop())
}

// limitDelivery is the answer to a pop.
type limitDelivery struct {
	LeaseID  string `json:"leaseId"`
	Messages []struct {
		TransactionID string `json:"transactionId"`
		PartitionID   string `json:"partitionId"`
	} `json:"messages"`
}

// popLimited pops one message. wait is the wait of the pop.
func (l *limits) popLimited(ctx context.Context, group string, wait time.Duration) (d limitDelivery, err error) {
	path := fmt.Sprintf("/api/v1/pop/queue/%s?batch=1&consumerGroup=%s&wait=%t&timeout=%d", limitedQueue, escaped(group), wait > 0, wait.Milliseconds())
	_, err = l.servers[0].Call(ctx, http.MethodGet, path, nil, &d)
	return d, err
}

func (l *limits) ackLimited(ctx context.Context, group string, d limitDelivery) error {
	_, err := l.servers[0].Call(ctx, http.MethodPost, "/api/v1/ack", map[string]any{
		"transactionId": d.Messages[0].TransactionID, "partitionId": d.Messages[0].PartitionID, "leaseId": d.LeaseID,
		"consumerGroup": group, "status": "completed",
	}, nil)
	return err
}

// measureLimits compares the rates of pops with their acks of groups in turns.
func measureLimits(ctx context.Context, r *suite, out *rig.Report) (err error) {
	l, err := r.startLimits(ctx, costGroups)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.stop()) }()
	done := make([]int, len(costGroups))
	for round := range r.limitRounds + 1 { // the first round fills caches and is not counted
		for i := range costGroups {
			at := (i + round) % len(costGroups)
			n, err := l.turn(ctx, costGroups[at].name)
			if err != nil {
				return err
			}
			if round > 0 {
				done[at] += n
			}
		}
	}
	measured := (time.Duration(r.limitRounds) * limitTurn).Seconds()
	for i, g := range costGroups {
		share := float64(done[i]) / float64(done[0])
		value := fmt.Sprintf("%.0f/s, %.1f %%", float64(done[i])/measured, 100*share)
		what := fmt.Sprintf("pop and ack, %d consumers: %s", limitConsumers, g.name)
		switch {
		case i == 0:
			out.Note(what, value)
		case i <= 3:
			out.Target(what, value, fmt.Sprintf("%.0f %%", 100*looseShare), share >= looseShare)
		default:
			out.Target(what, value, fmt.Sprintf("%.0f %%", 100*bindingShare), share >= bindingShare)
		}
	}
	asked, err := l.statements(ctx)
	if err != nil {
		return err
	}
	out.Remark("statements (mean time)", describe(withoutCanaries(asked), 1))
	return nil
}

// turn pops and acknowledges with all consumers for one turn. It returns the number of pops with their acks.
func (l *limits) turn(ctx context.Context, group string) (n int, err error) {
	consumers := load.NewWorkers(ctx)
	end := time.Now().Add(limitTurn)
	counts := make(chan int, limitConsumers)
	for range limitConsumers {
		consumers.Go(func(ctx context.Context) error {
			own := 0
			for ; time.Now().Before(end); own++ {
				d, err := l.popLimited(ctx, group, time.Second)
				if err != nil || len(d.Messages) == 0 {
					return errors.Join(err, fmt.Errorf("a pop of %q returned nothing: %w", group, errNotQuiet))
				}
				if err := l.ackLimited(ctx, group, d); err != nil {
					return err
				}
			}
			counts <- own
			return nil
		})
	}
	if err := consumers.Wait(); err != nil {
		return 0, err
	}
	for range limitConsumers {
		n += <-counts
	}
	return n, nil
}
