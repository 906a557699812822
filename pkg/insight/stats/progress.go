package stats

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlGroupPartitions = sql.Query("insight/stats/group_partitions")
	sqlLagging         = sql.Query("insight/stats/lagging")
)

// PartitionProgress is the progress of a consumer group in a partition.
type PartitionProgress struct {
	Partition string
	// Lease is the id of the live lease, or zero.
	Lease queue.ID
	// Lag counts the unfinished messages. Age is the age of the oldest unfinished message.
	Lag int64
	Age time.Duration
	// Consumed counts consumed messages. ConsumedAt is when the last one was consumed, or zero.
	Consumed   int64
	ConsumedAt time.Time
	// Expired counts the messages that a pop found expired and skipped.
	Expired int64
}

// QueueProgress is the progress of a consumer group in the partitions of a queue.
type QueueProgress struct {
	Queue      string
	Partitions []PartitionProgress
	// Truncated is true if the group has cursors in more partitions of this queue.
	Truncated bool
}

// Group returns the progress of a group, queue by queue, in at most limit partitions. The
// partitions are in the order of their creation. For an unknown group it returns nothing.
// allowed has the same meaning as in List. Errors: CodeUnavailable.
func (g *Groups) Group(ctx context.Context, name string, limit int, allowed []string) ([]QueueProgress, error) {
	groups, err := g.named(ctx, &name, allowed)
	if err != nil {
		return nil, err
	}
	var out []QueueProgress
	for i := range groups {
		in, err := g.inQueue(ctx, &groups[i], limit)
		if err != nil {
			return nil, postgres.Wrapf(err, "reading the progress of a consumer group")
		}
		limit -= len(in.Partitions)
		if groups[i].whole || len(in.Partitions) > 0 || in.Truncated {
			out = append(out, in)
		}
	}
	return out, nil
}

// inQueue reads the progress of a group in at most limit partitions of its queue.
func (g *Groups) inQueue(ctx context.Context, group *Group, limit int) (QueueProgress, error) {
	in := QueueProgress{Queue: group.Queue}
	for after := int64(0); !in.Truncated; {
		room := limit - len(in.Partitions)
		want := min(room, groupPage) + 1 // the extra row shows whether there are more
		found, err := postgres.Collect(ctx, g.pool, sqlGroupPartitions, func(row pgx.CollectableRow) (p PartitionProgress, err error) {
			err = row.Scan(&after, &p.Partition, &p.Consumed, (*zeronull.Timestamptz)(&p.ConsumedAt), (*zeronull.UUID)(&p.Lease),
				&p.Lag, (*postgres.Seconds)(&p.Age), &p.Expired)
			return p, err
		}, group.key, group.queueKey, after, int64(want))
		if err != nil {
			return in, err
		}
		in.Truncated = len(found) > room
		in.Partitions = append(in.Partitions, found[:min(room, len(found))]...)
		if len(found) < want {
			break
		}
	}
	return in, nil
}

// LaggingPartition is the progress of a group whose first unconsumed message is old.
type LaggingPartition struct {
	PartitionProgress
	Group, Queue string
	PartitionID  queue.ID
	// Oldest is the instant at which the first unconsumed message was stored.
	Oldest time.Time
}

// Lagging returns at most limit pairs of partition and group with a time lag above threshold,
// the largest lag first. allowed has the same meaning as in List. Errors: CodeUnavailable.
func (g *Groups) Lagging(ctx context.Context, threshold time.Duration, limit int, allowed []string) ([]LaggingPartition, error) {
	var found []LaggingPartition
	err := g.pages(ctx, sqlLagging, func(row pgx.CollectableRow) (lastID int64, err error) {
		var p LaggingPartition
		err = row.Scan(&lastID, (*zeronull.Text)(&p.Queue), (*zeronull.Text)(&p.Group), (*zeronull.Text)(&p.Partition),
			(*zeronull.UUID)(&p.PartitionID), (*zeronull.UUID)(&p.Lease), (*zeronull.Int8)(&p.Lag), (*postgres.Seconds)(&p.Age),
			(*zeronull.Timestamptz)(&p.Oldest), (*zeronull.Timestamptz)(&p.ConsumedAt))
		if err != nil || p.Queue == "" {
			return lastID, err
		}
		found = append(found, p)
		if len(found) >= 2*limit {
			found = largestLag(found, limit)
		}
		return lastID, nil
	}, threshold.Seconds(), int64(limit), postgres.LikePatterns(allowed))
	return largestLag(found, limit), postgres.Wrapf(err, "listing lagging partitions")
}

// largestLag keeps the limit entries with the largest time lag, largest first.
func largestLag(found []LaggingPartition, limit int) []LaggingPartition {
	slices.SortStableFunc(found, func(a, b LaggingPartition) int { return cmp.Compare(b.Age, a.Age) })
	return found[:min(limit, len(found))]
}
