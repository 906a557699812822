package history

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// stored is when the oldest message of each test was stored.
var stored = time.Date(2026, 5, 16, 8, 0, 0, 0, time.UTC)

// count makes w count these backlogs. It returns how often w has counted.
func count(w *Writer, depths func() (map[Key]Depth, error)) (counts *atomic.Int64) {
	counts = new(atomic.Int64)
	w.sources.Backlog = func(context.Context) (*Backlogs, error) {
		counts.Add(1)
		found, err := depths()
		return &Backlogs{At: time.Now(), Depths: found}, err
	}
	return counts
}

// depths returns the backlogs in the rows, by pair.
func depths(rows []row) map[Key]int64 {
	found := map[Key]int64{}
	for i := range rows {
		if r := &rows[i]; r.Depth != nil {
			found[Key{r.Queue, r.Group}] = *r.Depth
		}
	}
	return found
}

// The Writer counts after a busy minute only, and writes a backlog only when it has changed, also that of a queue without an event.
func TestABacklogIsWrittenWhenItChanges(t *testing.T) {
	inBubble(t, func(t *testing.T, d *testWriter) {
		now := map[Key]Depth{{"q", ""}: {5, stored}, {"q", "g"}: {5, stored}, {"sql", "g"}: {7, stored}}
		d.Writer.written = func(context.Context, time.Time) ([]backlogRow, error) { return nil, nil }
		counts := count(d.Writer, func() (map[Key]Depth, error) { return maps.Clone(now), nil })
		d.push("q", 5)
		d.minutes(1)
		require.Equal(t, map[Key]int64{{"q", ""}: 5, {"q", "g"}: 5, {"sql", "g"}: 7}, depths(d.statements[0]))
		d.minutes(10)
		require.Equal(t, int64(1), counts.Load(), "an idle minute has no count")
		require.Len(t, d.statements, 1)

		d.push("q", 1)
		d.minutes(1)
		require.Empty(t, depths(d.statements[1]), "nothing has changed")
		now[Key{"q", ""}] = Depth{5, stored.Add(time.Second)}
		delete(now, Key{"sql", "g"})
		d.push("q", 1)
		d.minutes(1)
		require.Equal(t, map[Key]int64{{"q", ""}: 5, {"sql", "g"}: 0}, depths(d.statements[2]))
		d.push("q", 1)
		d.minutes(1)
		require.Empty(t, depths(d.statements[3]))
	})
}

// A count that failed is made after the next minute, although that minute is idle.
func TestAMissedCountIsMadeLater(t *testing.T) {
	inBubble(t, func(t *testing.T, d *testWriter) {
		d.Writer.written = func(context.Context, time.Time) ([]backlogRow, error) { return nil, nil }
		var available atomic.Bool
		counts := count(d.Writer, func() (map[Key]Depth, error) {
			if !available.Load() {
				return nil, errors.New("the database is unavailable")
			}
			return map[Key]Depth{{"q", ""}: {5, stored}}, nil
		})
		d.push("q", 5)
		d.minutes(3)
		require.Equal(t, int64(3), counts.Load())
		available.Store(true)
		d.minutes(10)
		require.Equal(t, int64(4), counts.Load())
		require.Equal(t, map[Key]int64{{"q", ""}: 5}, depths(d.statements[len(d.statements)-1]))
		require.Len(t, d.statements, 4)
	})
}

// A long count rests for 20 times its duration.
func TestALongCountRests(t *testing.T) {
	inBubble(t, func(t *testing.T, d *testWriter) {
		d.Writer.written = func(context.Context, time.Time) ([]backlogRow, error) { return nil, nil }
		counts := 0
		d.sources.Backlog = func(context.Context) (*Backlogs, error) {
			counts++
			return &Backlogs{At: time.Now(), Took: 15 * time.Second}, nil
		}
		for range 11 {
			d.push("q", 1)
			d.minutes(1)
		}
		require.Equal(t, 3, counts, "one count in five minutes")
	})
}

// The backlogs of at most maxBacklogs pairs add rows to a minute: those that changed most. The others follow.
func TestTheBacklogsThatChangedMostComeFirst(t *testing.T) {
	inBubble(t, func(t *testing.T, d *testWriter) {
		d.Writer.written = func(context.Context, time.Time) ([]backlogRow, error) { return nil, nil }
		now := map[Key]Depth{}
		for i := range 2 * maxBacklogs {
			now[Key{fmt.Sprint("queue ", i), ""}] = Depth{int64(i + 1), stored}
		}
		count(d.Writer, func() (map[Key]Depth, error) { return now, nil })
		for range 3 {
			d.push("q", 1)
			d.minutes(1)
		}
		first, second := depths(d.statements[0]), depths(d.statements[1])
		require.Len(t, first, maxBacklogs)
		require.EqualValues(t, 2*maxBacklogs, first[Key{fmt.Sprint("queue ", 2*maxBacklogs-1), ""}])
		require.Len(t, second, maxBacklogs)
		require.Contains(t, second, Key{"queue 0", ""})
		require.Empty(t, depths(d.statements[2]))
	})
}

// flushed runs a busy minute of w, which begins at minute, and writes its rows.
func flushed(t *testing.T, w *Writer, counts *Recorder, minute time.Time) {
	t.Helper()
	counts.DatabaseFailed()
	w.begin(minute, false)
	w.flush(t.Context(), nil, true)
	require.Empty(t, w.unwritten)
}

// read returns the backlogs of the queue q, the oldest bucket first.
func read(t *testing.T, pool *postgres.Pool, span Range, f Filter) (found []int64) {
	t.Helper()
	backlogs, err := NewReader(pool, nil, nil).Backlog(t.Context(), span, []string{"q"}, f)
	require.NoError(t, err)
	for i := range backlogs {
		found = append([]int64{backlogs[i].Messages}, found...)
	}
	return found
}

// The newest count of all instances is valid. An instance notices what another one has written, also if its own count did not
// change. No count is added to that of another instance.
func TestTheNewestCountOfAllInstancesIsValid(t *testing.T) {
	pool := openPool(t)
	now := map[Key]Depth{{"q", ""}: {100, stored}}
	minute := time.Now().UTC().Truncate(time.Minute)
	a, aCounts := newWriter(pool)
	b, bCounts := newWriter(pool)
	at := minute
	for _, w := range []*Writer{a, b} {
		w.sources.Backlog = func(context.Context) (*Backlogs, error) { return &Backlogs{At: at, Depths: maps.Clone(now)}, nil }
	}
	step := func(w *Writer, counts *Recorder, depth int64) {
		t.Helper()
		flushed(t, w, counts, at)
		at = at.Add(time.Minute)
		require.Equal(t, depth, enginetest.Value[int64](t, pool, "SELECT depth FROM belfry.history WHERE depth IS NOT NULL ORDER BY counted_at DESC LIMIT 1"))
	}
	clear(now)
	flushed(t, b, bCounts, at) // b knows an empty backlog
	at = at.Add(time.Minute)
	now[Key{"q", ""}] = Depth{100, stored}
	step(a, aCounts, 100)
	clear(now)
	step(b, bCounts, 0)
	now[Key{"q", ""}] = Depth{100, stored}
	step(a, aCounts, 100)
	now[Key{"q", ""}] = Depth{30, stored}
	step(b, bCounts, 30)
	require.Equal(t, []int64{100, 0, 100, 30, 30, 30}, read(t, pool, Range{minute, minute.Add(6 * time.Minute), time.Minute}, Filter{}))
	require.Equal(t, []int64{30, 30}, read(t, pool, Range{minute.Add(time.Hour), minute.Add(time.Hour + 2*time.Minute), time.Minute}, Filter{}), "the last known value holds")
	group := "g"
	require.Empty(t, read(t, pool, Range{minute, minute.Add(6 * time.Minute), time.Minute}, Filter{Group: &group}))
	require.Empty(t, read(t, pool, Range{minute, minute.Add(6 * time.Minute), time.Minute}, Filter{Allowed: []string{"other.*"}}))
}

// A Writer that starts reads what is written, so it does not write it again.
func TestANewInstanceKnowsTheWrittenBacklogs(t *testing.T) {
	pool := openPool(t)
	minute := time.Now().UTC().Truncate(time.Minute)
	for i := range 2 {
		w, counts := newWriter(pool)
		w.sources.Backlog = func(context.Context) (*Backlogs, error) {
			return &Backlogs{At: minute.Add(time.Duration(i) * time.Minute), Depths: map[Key]Depth{{"q", "g"}: {4, stored}}}, nil
		}
		flushed(t, w, counts, minute.Add(time.Duration(i)*time.Minute))
	}
	require.EqualValues(t, 1, enginetest.Value[int64](t, pool, "SELECT count(*) FROM belfry.history WHERE depth = 4"))
}

// The age of a backlog that stands still grows, and an empty backlog has no age.
func TestTheAgeOfABacklogGrows(t *testing.T) {
	b := BacklogAt{Depth: Depth{3, stored}, CountedAt: stored.Add(time.Minute)}
	require.Equal(t, time.Hour, b.Age(stored.Add(time.Hour)))
	b.Messages = 0
	require.Zero(t, b.Age(stored.Add(time.Hour)))
}
