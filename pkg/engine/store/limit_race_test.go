package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/limitcheck"
)

// limitRace has many consumers of one limited group: over two stores, as two instances do, and in SQL.
type limitRace struct {
	*bench
	stores []*bench
	// claims is held shared during each claim until its commit. Whoever locks it knows that no earlier claim runs.
	claims sync.RWMutex
	rounds int
}

// newLimitRace makes a queue with messages in many partitions.
func newLimitRace(t *testing.T, partitions, messages, rounds int) *limitRace {
	t.Helper()
	r := &limitRace{bench: newBench(t, "g"), rounds: rounds}
	r.option("lease_time = 3600, retry_limit = 1000000")
	for _, partition := range numbered("p", partitions) {
		r.push(partition, numbered("m", messages)...)
	}
	another := *r.bench
	another.Store = enginetest.Store(t, newPool(t, r.pool.Config().ConnString(), time.Minute))
	r.stores = []*bench{r.bench, &another}
	require.NoError(t, limitcheck.Watch(t.Context(), r.pool))
	return r
}

// consume pops in rounds over HTTP verbs and treats the deliveries in all ways that end leases.
func (r *limitRace) consume(seed uint64) error {
	ctx, choose := r.t.Context(), rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // repeatable
	b := r.stores[int(seed)%len(r.stores)]
	for range r.rounds {
		r.claims.RLock()
		d, err := b.Pop(ctx, request("g", 1+choose.IntN(4), across(1+choose.IntN(3))))
		r.claims.RUnlock()
		if err != nil {
			return err
		}
		if len(d.Messages) == 0 {
			continue
		}
		switch lease := d.LeaseID; choose.IntN(8) {
		case 0:
			err = b.Release(ctx, lease)
		case 1: // the lease ends by the clock, and an extension meets that instant
			var both sync.WaitGroup
			both.Go(func() { _, _ = b.Extend(ctx, lease, time.Minute) })
			both.Go(func() { _, err = b.pool.Exec(ctx, sqlEndLease, [16]byte(lease)) })
			both.Wait()
			if err == nil {
				_, err = b.pool.Exec(ctx, sqlEndLease, [16]byte(lease))
			}
		case 2:
			_, err = b.Ack(ctx, acks(d, queue.AckRetry, d.Messages...))
		default:
			_, err = b.Ack(ctx, acks(d, queue.AckCompleted, d.Messages...))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

const sqlEndLease = `UPDATE belfry.cursor c SET lease_until = clock_timestamp(), ready_at = clock_timestamp()
	WHERE c.lease_id = $1 AND c.lease_until > clock_timestamp()`

// consumeSQL pops in transactions. It rolls some of them back, and some pops in others.
func (r *limitRace) consumeSQL(seed uint64) error {
	ctx, choose := r.t.Context(), rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // repeatable
	conn, err := pgx.Connect(ctx, r.pool.Config().ConnString())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for range r.rounds {
		r.claims.RLock()
		leases, err := r.popSQL(ctx, conn, choose)
		r.claims.RUnlock()
		if err != nil {
			return err
		}
		for _, lease := range leases {
			status := []string{"completed", "retry"}[choose.IntN(2)]
			if _, err := conn.Exec(ctx, `SELECT belfry.ack($1::uuid, status => $2)`, lease, status); err != nil {
				return err
			}
		}
	}
	return nil
}

// popSQL returns the leases of a committed transaction.
func (r *limitRace) popSQL(ctx context.Context, conn *pgx.Conn, choose *rand.Rand) (leases []string, err error) {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	pop := func(tx pgx.Tx) ([]string, error) {
		rows, err := tx.Query(ctx, `SELECT DISTINCT lease::text FROM belfry.pop('q', 'g', $1, partitions => $2)`, 1+choose.IntN(4), 1+choose.IntN(2))
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, pgx.RowTo[string])
	}
	for range 2 {
		sub, err := tx.Begin(ctx) // a savepoint
		if err != nil {
			return nil, err
		}
		popped, err := pop(sub)
		if err != nil {
			return nil, err
		}
		if choose.IntN(3) == 0 {
			err = sub.Rollback(ctx)
		} else if err = sub.Commit(ctx); err == nil {
			leases = append(leases, popped...)
		}
		if err != nil {
			return nil, err
		}
	}
	switch choose.IntN(4) {
	case 0:
		return nil, tx.Rollback(ctx)
	case 1: // the ack gives room for a pop of the same transaction
		for _, lease := range leases {
			if _, err := tx.Exec(ctx, `SELECT belfry.ack($1::uuid)`, lease); err != nil {
				return nil, err
			}
		}
		leases, err = pop(tx)
	}
	if err != nil {
		return nil, err
	}
	return leases, tx.Commit(ctx)
}

// run runs consumers until all have made their rounds, with meanwhile beside them.
func (r *limitRace) run(http, inSQL int, meanwhile func(done <-chan struct{})) []limitcheck.Lease {
	r.t.Helper()
	errs := make(chan error, http+inSQL)
	for i := range http {
		go func() { errs <- r.consume(uint64(i)) }() //nolint:gosec // small
	}
	for i := range inSQL {
		go func() { errs <- r.consumeSQL(uint64(i)) }() //nolint:gosec // small
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		meanwhile(done)
	}()
	for range http + inSQL {
		require.NoError(r.t, <-errs)
	}
	close(done)
	<-ended
	leases, err := limitcheck.Read(r.t.Context(), r.pool, "g")
	require.NoError(r.t, err)
	require.Zero(r.t, r.deadlocks())
	return leases
}

// popAll pops until nothing comes and returns the number of leases.
func (r *limitRace) popAll() (n int) {
	r.t.Helper()
	for len(r.pop(request("g", 1)).Messages) > 0 {
		n++
	}
	return n
}

// Consumers over HTTP and in SQL race for the places of a group: they acknowledge, release, extend, let leases end, and roll
// back. At no instant are more leases live than the limit allows, and all places are used.
func TestARaceOfConsumersKeepsTheConcurrency(t *testing.T) {
	for _, concurrency := range []int{1, 3, 20} { // from 17 on, claims begin their search at random
		t.Run(fmt.Sprint(concurrency), func(t *testing.T) {
			r := newLimitRace(t, 30, 200, 40)
			r.limit(fmt.Sprintf("concurrency = %d", concurrency))
			leases := r.run(8, 4, func(done <-chan struct{}) {
				for {
					select {
					case <-done:
						return
					default:
						if live := r.liveLeases(); live > concurrency {
							t.Errorf("%d leases are live", live)
						}
					}
				}
			})
			require.Empty(t, limitcheck.Concurrency(leases, limitcheck.Change{Concurrency: concurrency}))
			require.Greater(t, len(leases), 10)
			r.endLeases()
			require.Equal(t, concurrency, r.popAll(), "no place is lost")
		})
	}
}

// The limit is raised and lowered during the race. No claim that sees a limit exceeds it.
func TestARaceOfConsumersKeepsAChangingConcurrency(t *testing.T) {
	r := newLimitRace(t, 30, 400, 80)
	r.limit("concurrency = 12")
	changes := []limitcheck.Change{{Concurrency: 12}}
	choose := rand.New(rand.NewPCG(58, 0)) //nolint:gosec // repeatable
	leases := r.run(8, 4, func(done <-chan struct{}) {
		for {
			select {
			case <-done:
				return
			default:
				c := limitcheck.Change{Concurrency: 1 + choose.IntN(12), Begin: time.Now()}
				r.limit(fmt.Sprintf("concurrency = %d", c.Concurrency))
				r.claims.Lock() // claims that began before the change have ended
				c.End = time.Now()
				r.claims.Unlock()
				changes = append(changes, c)
			}
		}
	})
	require.Empty(t, limitcheck.Concurrency(leases, changes...))
	require.Greater(t, len(changes), 10)
	require.Greater(t, len(leases), 100)
	r.endLeases()
	r.limit("concurrency = 7")
	require.Equal(t, 7, r.popAll(), "no place is lost")
}

// In every window, a race of consumers gets at most the burst and the rate of the window. Few tokens are lost, if the burst
// covers the time that a transaction in SQL holds a part of the bucket.
func TestARaceOfConsumersKeepsTheRate(t *testing.T) {
	for _, b := range []limitcheck.Bucket{
		{Messages: 500, Per: time.Second, Burst: 7},   // one part
		{Messages: 500, Per: time.Second, Burst: 200}, // eight parts
		{Messages: 3, Per: 10 * time.Millisecond, Burst: 50},
	} {
		t.Run(fmt.Sprint(b.Messages, b.Burst), func(t *testing.T) {
			r := newLimitRace(t, 30, 400, 80)
			begun := time.Now()
			r.limit(rate(b.Messages, b.Per, b.Burst))
			leases := r.run(6, 3, func(<-chan struct{}) {})
			require.Empty(t, limitcheck.Rate(leases, b))
			total := 0
			for _, l := range leases {
				total += l.Messages
			}
			took := leases[len(leases)-1].From.Sub(begun)
			allowed := float64(b.Burst) + float64(b.Messages)*float64(took)/float64(b.Per)
			t.Logf("%d messages in %s, %.0f allowed", total, took, allowed)
			require.Greater(t, total, b.Burst, "the bucket is filled again; a busy machine loses tokens")
		})
	}
}
