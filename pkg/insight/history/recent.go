package history

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlRecent = sql.Query("insight/history/recent")
	sqlServed = sql.Query("insight/history/served")
)

// recentSpan is the time in which Recent counts failures.
const recentSpan = time.Hour

// Recent has the latest counts of a queue: the messages of the last finished minute, and the failed acknowledgments of the last
// hour.
type Recent struct{ Pushed, Delivered, Failed int64 }

// GroupOf names a group of a queue.
type GroupOf struct{ Queue, Group string }

// Server is an instance that delivers messages to a group, or holds waiting requests of the group.
type Server struct {
	Hostname string
	PID      int64
	// Waiting is the last written number of waiting requests.
	Waiting int64
}

// Served says what the instances do for a group. Delivered counts the messages of the last finished minute.
type Served struct {
	Delivered int64
	// By are the instances that have delivered a message since the begin of that minute, or hold waiting requests.
	By []Server
}

// Recent returns the latest counts of each queue that has counts. Queues without a row of their own are counted as Other. Errors:
// CodeUnavailable.
func (r *Reader) Recent(ctx context.Context) (map[string]Recent, error) {
	now := time.Now()
	rows, err := marshal(r.unwritten(ctx, Range{From: now.Add(-recentSpan), To: now}).Rows)
	if err != nil {
		return nil, err
	}
	found := map[string]Recent{}
	_, err = postgres.Collect(ctx, r.pool, sqlRecent, func(row pgx.CollectableRow) (none struct{}, err error) {
		var name string
		var one Recent
		err = row.Scan(&name, &one.Pushed, &one.Delivered, &one.Failed)
		found[name] = one
		return none, err
	}, now.Add(-recentSpan), lastMinute(now), rows)
	return found, postgres.Wrapf(err, "reading the recent counts of all queues")
}

// Served returns what the instances do for groups. Errors: CodeUnavailable.
func (r *Reader) Served(ctx context.Context, groups []GroupOf) (map[GroupOf]Served, error) {
	now := time.Now()
	rows, err := marshal(r.unwritten(ctx, Range{From: now.Add(-recentSpan), To: now}).withProcesses(func(*row) bool { return true }))
	if err != nil {
		return nil, err
	}
	queues, names := make([]string, len(groups)), make([]string, len(groups))
	for i, g := range groups {
		queues[i], names[i] = g.Queue, g.Group
	}
	found := map[GroupOf]Served{}
	_, err = postgres.Collect(ctx, r.pool, sqlServed, func(row pgx.CollectableRow) (none struct{}, err error) {
		var key GroupOf
		var by Server
		var delivered, since int64
		err = row.Scan(&key.Queue, &key.Group, &by.Hostname, &by.PID, &delivered, &since, &by.Waiting)
		one := found[key]
		one.Delivered += delivered
		if since > 0 || by.Waiting > 0 {
			one.By = append(one.By, by)
		}
		found[key] = one
		return none, err
	}, queues, names, lastMinute(now), now.Add(-parkedInterval-5*time.Minute), rows)
	return found, postgres.Wrapf(err, "reading which instances serve groups")
}

// lastMinute returns the begin of the last finished minute.
func lastMinute(now time.Time) time.Time { return now.Truncate(time.Minute).Add(-time.Minute) }
