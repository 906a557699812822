package stats

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

// Place is where a consumer group stands in a partition.
type Place struct {
	Partition string
	// Lease is the id of the live lease; zero: there is none.
	Lease queue.ID
	// Lag counts the messages that are left, and Age is that of the first one.
	Lag int64
	Age time.Duration
	// Consumed counts messages, and ConsumedAt is the last time; zero: never.
	Consumed   int64
	ConsumedAt time.Time
	// Expired counts the messages that a pop found expired and passed over.
	Expired int64
}

// QueuePlaces are the places of a group in one queue.
type QueuePlaces struct {
	Queue  string
	Places []Place
	// Truncated: the group has more places in this queue.
	Truncated bool
}

// Group returns where a group stands, queue by queue, in the order in which the
// partitions were made, limit places at most. An unknown group is in no queue.
// Errors: CodeUnavailable.
func (g *Groups) Group(ctx context.Context, name string, limit int) ([]QueuePlaces, error) {
	groups, err := g.named(ctx, &name)
	if err != nil {
		return nil, err
	}
	var out []QueuePlaces
	for _, one := range groups {
		in := QueuePlaces{Queue: one.Queue}
		for above := int64(0); !in.Truncated; {
			want := min(limit-len(in.Places), page) + 1 // one more tells whether there are more
			var found []Place
			if found, above, err = g.places(ctx, one, above, want); err != nil {
				return nil, err
			}
			room := limit - len(in.Places)
			in.Truncated = len(found) > room
			in.Places = append(in.Places, found[:min(room, len(found))]...)
			if len(found) < want {
				break
			}
		}
		limit -= len(in.Places)
		if one.whole || len(in.Places) > 0 || in.Truncated {
			out = append(out, in)
		}
	}
	return out, nil
}

func (g *Groups) places(ctx context.Context, of Group, above int64, limit int) (found []Place, upto int64, err error) {
	ctx, cancel := g.pool.Bounded(ctx)
	defer cancel()
	rows, err := g.pool.Query(ctx, sql.Query("stats/group_partitions"), of.key, of.queueKey, above, int64(limit))
	if err != nil {
		return nil, 0, failed("reading the places of a consumer group", err)
	}
	found, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (p Place, err error) {
		var lease pgtype.UUID
		var consumedAt pgtype.Timestamptz
		var age float64
		err = row.Scan(&upto, &p.Partition, &p.Consumed, &consumedAt, &lease, &p.Lag, &age, &p.Expired)
		p.Lease, p.ConsumedAt, p.Age = lease.Bytes, consumedAt.Time, inSeconds(age)
		return p, err
	})
	if err != nil {
		return nil, 0, failed("reading the places of a consumer group", err)
	}
	return found, upto, nil
}

// LaggingPlace is a place of a group whose first message that is not consumed
// has been there for long.
type LaggingPlace struct {
	Place
	Group, Queue string
	PartitionID  queue.ID
	// Oldest is when that message was stored.
	Oldest time.Time
}

// Lagging returns the places whose time lag exceeds over, the largest first,
// limit at most. Errors: CodeUnavailable.
func (g *Groups) Lagging(ctx context.Context, over time.Duration, limit int) ([]LaggingPlace, error) {
	var found []LaggingPlace
	err := g.pages(ctx, "stats/lagging", func(row pgx.Rows) (upto int64, err error) {
		var p LaggingPlace
		var queueName, group, partition pgtype.Text
		var id, lease pgtype.UUID
		var lag pgtype.Int8
		var age pgtype.Float8
		var oldest, consumedAt pgtype.Timestamptz
		err = row.Scan(&upto, &queueName, &group, &partition, &id, &lease, &lag, &age, &oldest, &consumedAt)
		if err != nil || !queueName.Valid {
			return upto, err
		}
		p.Queue, p.Group, p.Partition, p.PartitionID = queueName.String, group.String, partition.String, id.Bytes
		p.Lease, p.Lag, p.Age = lease.Bytes, lag.Int64, inSeconds(age.Float64)
		p.Oldest, p.ConsumedAt = oldest.Time, consumedAt.Time
		found = append(found, p)
		if len(found) >= 2*limit {
			found = largest(found, limit)
		}
		return upto, nil
	}, over.Seconds(), int64(limit))
	if err != nil {
		return nil, err
	}
	return largest(found, limit), nil
}

// largest keeps the places with the largest time lag, largest first.
func largest(found []LaggingPlace, limit int) []LaggingPlace {
	slices.SortStableFunc(found, func(a, b LaggingPlace) int { return cmp.Compare(b.Age, a.Age) })
	return found[:min(limit, len(found))]
}
