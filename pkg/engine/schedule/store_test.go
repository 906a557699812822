package schedule

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/process/inflight"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// A dry run makes all checks and returns the schedule, but stores nothing and moves no instant.
func TestADryRunStoresNothing(t *testing.T) {
	f := newFixture(t)
	ctx := enginetest.Context(t)
	d := Definition{Name: "s", Queue: "q", Payload: []byte(`{}`)}
	d.Spec.Every = time.Hour
	set, created, err := f.Set(ctx, &d, true)
	require.NoError(t, err)
	require.True(t, created)
	next, err := set.Next(2)
	require.NoError(t, err)
	require.Equal(t, []time.Time{hour(1), hour(2)}, next)
	_, err = f.Get(ctx, "s")
	require.ErrorIs(t, err, ErrNoSchedule)

	f.put("s", hourly)
	before := f.texts(`SELECT s::text FROM belfry.schedule s`)
	d.Spec.Every, d.Pause = time.Minute, new(true)
	set, created, err = f.Set(ctx, &d, true)
	require.NoError(t, err)
	require.False(t, created)
	require.True(t, set.Paused)
	require.Equal(t, before, f.texts(`SELECT s::text FROM belfry.schedule s`))
	d.OverlapGroup = strings.Repeat("g", 256)
	_, _, err = f.Set(ctx, &d, true)
	require.Equal(t, queue.CodeInvalid, queue.CodeOf(err), "a dry run must check what only the database checks")
}

// A check sees the queue of the schedule that exists. If it fails, nothing changes.
func TestAChangeIsCheckedAgainstTheOldQueue(t *testing.T) {
	f := newFixture(t)
	ctx := enginetest.Context(t)
	f.put("s", hourly)
	before := f.texts(`SELECT s::text FROM belfry.schedule s`)
	refused := errors.New("refused")
	check := func(queueName string) error {
		require.Equal(t, "q", queueName)
		return refused
	}
	d := Definition{Name: "s", Queue: "other", Payload: []byte(`{}`)}
	d.Spec.Every = time.Minute
	_, err := f.Put(ctx, &d, check)
	require.ErrorIs(t, err, refused)
	_, err = f.SetPaused(ctx, "s", true, "", check)
	require.ErrorIs(t, err, refused)
	_, err = f.RunNow(ctx, "s", check)
	require.ErrorIs(t, err, refused)
	require.ErrorIs(t, f.Delete(ctx, "s", check), refused)
	require.Equal(t, before, f.texts(`SELECT s::text FROM belfry.schedule s`))
	require.Empty(t, f.ids())
	_, err = f.Put(ctx, &Definition{Name: "new", Queue: "q", Payload: []byte(`{}`), Spec: d.Spec}, check)
	require.NoError(t, err, "a new schedule has no old queue")
}

// Lists are in the order of the names, without gaps, also if the rows are large.
func TestListsAreFilteredAndPaged(t *testing.T) {
	f := newFixture(t)
	for i, name := range []string{"Alpha", "a_b", "aXb", "beta", "größe"} {
		f.put(name, func(d *Definition) { hourly(d); d.Queue = []string{"one.x", "two.x"}[i%2] })
	}
	names := func(filter Filter) (all []string) {
		for pages := 0; ; pages++ {
			require.Less(t, pages, 10)
			page, next, err := f.List(enginetest.Context(t), filter)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page), filter.Limit)
			for i := range page {
				all = append(all, page[i].Name)
			}
			if next == "" {
				return all
			}
			filter.After = next
		}
	}
	for limit := 1; limit <= 6; limit++ {
		require.Equal(t, []string{"Alpha", "aXb", "a_b", "beta", "größe"}, names(Filter{Limit: limit}))
		require.Equal(t, []string{"a_b", "beta"}, names(Filter{Limit: limit, Queue: "two.x"}))
		require.Equal(t, []string{"Alpha", "aXb", "größe"}, names(Filter{Limit: limit, Allowed: []string{"one.*"}}))
		require.Empty(t, names(Filter{Limit: limit, Allowed: []string{"one.*"}, Queue: "two.x"}))
		require.Equal(t, []string{"a_b"}, names(Filter{Limit: limit, Part: "_"}))
		require.Equal(t, []string{"aXb"}, names(Filter{Limit: limit, Part: "xB"}))
		require.Equal(t, []string{"größe"}, names(Filter{Limit: limit, Part: "GRö"}))
	}
	for _, name := range []string{"large1", "large2", "large3"} {
		f.put(name, func(d *Definition) { hourly(d); d.Payload = []byte(`"` + strings.Repeat("x", 60_000) + `"`) })
	}
	memory := inflight.NewBudget(1<<20, 50_000).Reservation()
	defer memory.End()
	page, next, err := f.List(inflight.With(enginetest.Context(t), memory), Filter{Limit: 10, Part: "large"})
	require.NoError(t, err)
	require.Len(t, page, 1, "the page must end after its bytes")
	require.Equal(t, "large1", next)
}

// The clock of the database decides, not the clock of this machine.
func TestAPausedScheduleCountsFromTheClockOfTheDatabase(t *testing.T) {
	s := Schedule{Paused: true, ReadAt: time.Date(2030, 1, 1, 0, 30, 0, 0, time.UTC), handledTo: time.Date(2029, 1, 1, 0, 0, 0, 0, time.UTC)}
	s.Spec.Every = time.Hour
	next, err := s.Next(1)
	require.NoError(t, err)
	require.Equal(t, []time.Time{time.Date(2030, 1, 1, 1, 0, 0, 0, time.UTC)}, next)
	require.Equal(t, "s@2030-01-01T00:30:00Z/run", transactionIDOfRun("s", s.ReadAt))
	f := newFixture(t)
	f.put("s", hourly)
	before := enginetest.Value[time.Time](t, f.pool, `SELECT clock_timestamp()`)
	require.False(t, f.schedule("s").ReadAt.Before(before))
	require.False(t, f.schedule("s").ReadAt.After(enginetest.Value[time.Time](t, f.pool, `SELECT clock_timestamp()`)))
}

// A request can pause a schedule while it sets it. Without that, a pause stays.
func TestSetPausesAndResumes(t *testing.T) {
	f := newFixture(t)
	paused := func(pause *bool) bool {
		f.put("s", func(d *Definition) { hourly(d); d.Pause = pause })
		return f.schedule("s").Paused
	}
	require.False(t, paused(nil))
	require.True(t, paused(new(true)))
	require.True(t, paused(nil))
	require.False(t, paused(new(false)))
	f.travel(f.Runner, hour(1))
	f.mustStep(f.Runner)
	require.Len(t, f.ids(), 1)
}
