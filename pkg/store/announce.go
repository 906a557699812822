package store

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Handoffs knows the requests that wait for a push.
type Handoffs interface {
	// Handoffs returns the claims to make with a push to one partition, in order. The store calls
	// Take of each before it publishes that the partition is ready. It does not block.
	Handoffs(queueName, partition string) []queue.Handoff
}

// noHandoffs is the Handoffs of a Store without waiting requests.
type noHandoffs struct{}

func (noHandoffs) Handoffs(_, _ string) []queue.Handoff { return nil }

// readReady reads rows of (group, partition, seconds until ready or NULL, that
// instant).
func readReady(rows pgx.Rows) (ready []queue.Ready, asleep []int64, err error) {
	var group, partition int64
	var seconds pgtype.Float8
	var at pgtype.Timestamptz
	_, err = pgx.ForEachRow(rows, []any{&group, &partition, &seconds, &at}, func() error {
		if seconds.Valid {
			ready = append(ready, queue.Ready{Group: group, Partition: partition, In: inSeconds(seconds.Float64), At: at.Time})
		} else {
			asleep = append(asleep, partition)
		}
		return nil
	})
	return ready, asleep, err
}

func inSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// readyResult reads the result of a wake, or of a statement that returns the
// same columns, out of a batch.
func readyResult(results pgx.BatchResults, what string) ([]queue.Ready, error) {
	rows, err := results.Query()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	ready, _, err := readReady(rows)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return ready, nil
}

// OnReady lowers the scan floors of the groups. A SQL consumer announces a cursor that it left
// without saying since when the cursor is ready, because its transaction may have been long: then
// the floor of the group is dropped. Cursors that SQL consumers left are queued for settling.
func (s *Store) OnReady(ready []queue.Ready, from events.Origin) {
	s.floors.ready(ready...)
	if from != events.SQL {
		return
	}
	for _, r := range ready {
		if r.At.IsZero() {
			s.floors.forget(r.Group)
		}
	}
	s.told.add(ready)
}

// OnResync drops all scan floors.
func (s *Store) OnResync(string, events.Origin) { s.floors.forget(0) }

// OnLeaseChanged forgets the delivery of a lease.
func (s *Store) OnLeaseChanged(lease queue.ID) { s.delivered.forget(lease) }

func (s *Store) announce(ready []queue.Ready) { s.events.Ready(ready, events.Here) }

// resync makes every waiter look, because the store does not know what became poppable.
func (s *Store) resync(reason string) { s.events.Resync(reason, events.Here) }
