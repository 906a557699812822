package store

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// Announcer is told, after a commit, what became poppable by it. It must not
// block.
type Announcer interface {
	// Ready: these partitions are poppable for these groups, now or in a while.
	Ready(ready []queue.Ready)
	// Born: this partition was created; partition is empty when its queue was
	// created with it. Whoever waits for that name should look.
	Born(queueName, partition string)
	// Handoffs returns the claims to make with a push to one partition, and their
	// order; each must be concluded by its Take before Ready is told of the push.
	Handoffs(queueName, partition string) []queue.Handoff
	// Doubt: something may have become poppable that nobody can name. Everybody who
	// waits, here or at another instance, should look.
	Doubt(reason string)
}

// silent is the Announcer of a Store nobody listens to.
type silent struct{}

func (silent) Ready([]queue.Ready) {}
func (silent) Born(_, _ string)    {}
func (silent) Doubt(string)        {}

func (silent) Handoffs(_, _ string) []queue.Handoff { return nil }

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

// Heard tells the store what others made ready: other instances, other rooms.
func (s *Store) Heard(ready []queue.Ready) { s.floors.ready(ready...) }

// HeardLate is Heard of what was committed any time after the statement that made
// it ready.
func (s *Store) HeardLate(ready []queue.Ready) {
	for _, r := range ready {
		s.floors.forget(r.Group)
	}
}

// Doubt tells the store that something may have become ready that it was not told
// of.
func (s *Store) Doubt() { s.floors.forget(0) }

func (s *Store) announce(ready []queue.Ready) {
	if len(ready) > 0 {
		s.floors.ready(ready...)
		s.announcer.Ready(ready)
	}
}

// doubt makes everybody look: what became poppable is not known.
func (s *Store) doubt(reason string) {
	s.Doubt()
	s.announcer.Doubt(reason)
}
