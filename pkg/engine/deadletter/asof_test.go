package deadletter_test

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/belfry-mq/belfry/pkg/engine/deadletter"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// insertLetter makes a dead letter of partition p1 that failed at an instant around now.
const insertLetter = `INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts, failed_at)
	SELECT c.partition_id, $1::bigint, c.group_id, 3, clock_timestamp() - make_interval(secs => $2::float8)
	  FROM belfry.cursor c JOIN belfry.partition p ON p.id = c.partition_id WHERE p.name = 'p1'`

// letters returns the ids of the dead letters that are committed.
func (r *fixture) letters() map[int64]bool {
	r.t.Helper()
	rows, _ := r.pool.Query(r.t.Context(), `SELECT id FROM belfry.dead_letter`)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	require.NoError(r.t, err)
	all := make(map[int64]bool, len(ids))
	for _, id := range ids {
		all[id] = true
	}
	return all
}

// A purge and a redrive take at most as many dead letters as the count said, and only dead letters that existed at the count. Meanwhile
// consumers make further ones, in transactions that begin before or after the count, with failures before and after it.
func TestAnActionTakesOnlyWhatItsCountSaid(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { actionIsBounded(t, seed) })
	}
}

func actionIsBounded(t *testing.T, seed uint64) {
	r, choose := newFixture(t), rand.New(rand.NewPCG(seed, 7)) //nolint:gosec // repeatable
	r.fill(20)
	r.Bound(3, time.Minute)
	r.CountBy(7)
	open := make([]pgx.Tx, 3)
	for i := range open {
		tx, err := r.pool.Begin(t.Context())
		require.NoError(t, err)
		enginetest.Exec(t, tx, insertLetter, 100+i, choose.Float64()*100-50)
		open[i] = tx
	}
	for i := range choose.IntN(10) {
		enginetest.Exec(t, r.pool, insertLetter, 200+i, choose.Float64()*100-50)
	}
	before := r.letters()
	at, err := r.Count(t.Context(), named("q", "g"), nil)
	require.NoError(t, err)
	require.EqualValues(t, len(before), at.N, "the count is exact")

	var making errgroup.Group
	for _, tx := range open {
		making.Go(func() error { return tx.Commit(t.Context()) })
	}
	stop := make(chan struct{})
	making.Go(func() error {
		for seq := 1000; ; seq++ {
			select {
			case <-stop:
				return nil
			default:
			}
			if _, err := r.pool.Exec(t.Context(), insertLetter, seq, float64(seq%100-50)); err != nil {
				return err
			}
		}
	})
	again, err := deadletter.ParseAsOf(at.String(), filter("q", "g"))
	require.NoError(t, err)
	of := named("q", "g")
	of.AsOf = again
	act := func() (deadletter.Result, error) { return r.Purge(t.Context(), of, false) }
	switch seed % 3 {
	case 1:
		act = func() (deadletter.Result, error) { return r.Redrive(t.Context(), of, 0, false) }
	case 2:
		act = func() (deadletter.Result, error) {
			return r.PurgeTo(t.Context(), of, func([]deadletter.Letter) error { return nil })
		}
	}
	done, err := act()
	close(stop)
	require.NoError(t, err)
	require.NoError(t, making.Wait())
	require.LessOrEqual(t, done.Taken, at.N)
	left := r.letters()
	for id := range before {
		require.False(t, left[id], "seed %d: a counted dead letter is left", seed)
	}
	maps.DeleteFunc(left, func(id int64, _ bool) bool { return before[id] })
	var made int
	require.NoError(t, r.pool.QueryRow(t.Context(), `SELECT last_value FROM belfry.dead_letter_id_seq`).Scan(&made))
	require.Len(t, left, made-len(before), "seed %d: a dead letter that came later is gone", seed)
}

func filter(queueName, group string) *deadletter.Filter {
	f := named(queueName, group)
	return &f
}

// A count bounds only actions with its own filter, and a text that no count has made is refused.
func TestACountBelongsToItsFilter(t *testing.T) {
	r := newFixture(t)
	r.fill(3)
	at, err := r.Count(t.Context(), named("q", "g"), nil)
	require.NoError(t, err)
	_, err = deadletter.ParseAsOf(at.String(), filter("q", "g"))
	require.NoError(t, err)
	for _, text := range []string{"x", "", "e30", at.String()[:20], deadletter.AsOf{N: 3, Snapshot: "1:2:3'", Selection: at.Selection}.String()} {
		_, err = deadletter.ParseAsOf(text, filter("q", "g"))
		require.Equal(t, queue.CodeInvalid, queue.CodeOf(err), text)
	}
	_, err = deadletter.ParseAsOf(at.String(), filter("q", "other"))
	require.ErrorContains(t, err, "other dead letters")
}

// A count reports its progress after each page, and ends with the caller.
func TestACountShowsProgressAndEnds(t *testing.T) {
	r := newFixture(t)
	r.fill(10)
	r.CountBy(4)
	var seen []int64
	at, err := r.Count(t.Context(), named("q", "g"), func(n int64) error { seen = append(seen, n); return nil })
	require.NoError(t, err)
	require.Equal(t, []int64{4, 8, 10}, seen)
	require.EqualValues(t, 10, at.N)
	ctx, cancel := context.WithCancel(t.Context())
	_, err = r.Count(ctx, named("q", "g"), func(int64) error { cancel(); return nil })
	require.ErrorIs(t, err, context.Canceled)
	none := errors.New("enough")
	_, err = r.Count(t.Context(), named("q", "g"), func(int64) error { return none })
	require.ErrorIs(t, err, none)
}

// A purge to a file deletes what was written, and nothing else.
func TestAPurgeToAFileDeletesOnlyWhatWasWritten(t *testing.T) {
	r := newFixture(t)
	r.fill(10)
	r.Bound(4, time.Minute)
	at, err := r.Count(t.Context(), named("q", "g"), nil)
	require.NoError(t, err)
	before, written := r.letters(), map[int64]bool{}
	full := errors.New("the disk is full")
	of := named("q", "g")
	of.AsOf = at
	done, err := r.PurgeTo(t.Context(), of, func(page []deadletter.Letter) error {
		if len(written) > 0 {
			return full
		}
		for i := range page {
			require.Equal(t, "{}", string(page[i].Payload))
			written[page[i].ID] = true
		}
		return nil
	})
	require.ErrorIs(t, err, full)
	require.EqualValues(t, 4, done.Taken)
	left := r.letters()
	for id := range before {
		require.NotEqual(t, written[id], left[id], "what is written is gone, and the rest is there")
	}
}
