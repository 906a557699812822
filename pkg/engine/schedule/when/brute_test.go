package when_test

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/schedule/when"
)

var (
	seedFlag = flag.Uint64("when.seed", 0, "the seed of the random schedules; 0 means another one in each run")
	longFlag = flag.Int("when.long", 0, "the number of expressions that are compared over all ten years in each zone")
)

// The ten years of the comparison. The zones change their clocks by 30 minutes, 1 hour, 2 hours or a day in these years, or
// change their rules.
var (
	tenYears = [2]time.Time{time.Date(2009, 6, 1, 0, 0, 0, 0, time.UTC), time.Date(2019, 6, 1, 0, 0, 0, 0, time.UTC)}
	zones    = []string{
		"Europe/Rome", "Europe/Lisbon", "America/Sao_Paulo", "Africa/Casablanca", "Asia/Pyongyang", "Australia/Lord_Howe",
		"Antarctica/Troll", "Pacific/Apia",
	}
)

// brute is a second implementation of the rules. It looks at every minute or second, and reads only the clock of the zone.
// Its fields are sets, so it does not depend on how Parse reads a text.
type brute struct {
	fields  [6]map[int]bool           // second, minute, hour, day of the month, month, day of the week
	day     func(wall time.Time) bool // L, or nil
	week    func(wall time.Time) bool // MON#1 or MON#L, or nil
	either  bool
	elapsed bool
	step    time.Duration
}

func (b *brute) matches(wall time.Time) bool {
	hour, minute, second := wall.Clock()
	if !b.fields[0][second] || !b.fields[1][minute] || !b.fields[2][hour] || !b.fields[4][int(wall.Month())] {
		return false
	}
	day := b.fields[3][wall.Day()] || b.day != nil && b.day(wall)
	week := b.fields[5][int(wall.Weekday())] || b.week != nil && b.week(wall)
	return day && week || b.either && (day || week)
}

// instants returns the instants after from, up to to. It begins two days earlier, so it knows what the clock has shown.
func (b *brute) instants(zone *time.Location, from, to time.Time) []time.Time {
	var all []time.Time
	var latest time.Time // the latest time that the clock has shown
	for now := from.Add(-48 * time.Hour); !now.After(to); now = now.Add(b.step) {
		local := now.In(zone)
		_, offset := local.Zone()
		wall := now.Add(time.Duration(offset) * time.Second)
		runs := b.elapsed && b.matches(wall)
		if wall.After(latest) {
			for shown := latest.Add(b.step); !b.elapsed && !latest.IsZero() && !shown.After(wall); shown = shown.Add(b.step) {
				runs = runs || b.matches(shown)
			}
			latest = wall
		}
		if runs && now.After(from) {
			all = append(all, now)
		}
	}
	return all
}

// field makes a random field with values from low to high, and the set of its values. If rare is set, the field has more
// values than these, and the text lists or spans only some of these.
func field(r *rand.Rand, low, high int, rare bool) (string, map[int]bool) {
	set, size := map[int]bool{}, high-low+1
	switch kind := r.IntN(5); {
	case !rare && kind < 2:
		for value := low; value <= high; value++ {
			set[value] = true
		}
		return "*", set
	case !rare && kind == 2:
		step := 2 + r.IntN(min(size-2, 20))
		for value := low; value <= high; value += step {
			set[value] = true
		}
		return "*/" + strconv.Itoa(step), set
	case kind == 3:
		from, to := low+r.IntN(size), low+r.IntN(size)
		if rare && from > to { // the field has more values than low to high, so the range would pass them
			from, to = to, from
		}
		for value := from; ; value++ {
			if value > high {
				value = low
			}
			set[value] = true
			if value == to {
				return fmt.Sprintf("%d-%d", from, to), set
			}
		}
	}
	var list []string
	for range 1 + r.IntN(4) {
		value := low + r.IntN(size)
		set[value] = true
		list = append(list, strconv.Itoa(value))
	}
	return strings.Join(list, ","), set
}

// random makes a cron expression and its second implementation. A change of the clock is mostly at an hour from 0 to 3, so
// half of the expressions have such hours.
func random(r *rand.Rand, seconds bool) (string, *brute) {
	b := &brute{step: time.Minute}
	texts := make([]string, 6)
	texts[0], b.fields[0] = "0", map[int]bool{0: true}
	if seconds {
		b.step = time.Second
		texts[0], b.fields[0] = field(r, 0, 59, false)
	}
	texts[1], b.fields[1] = field(r, 0, 59, false)
	if r.IntN(2) == 0 {
		texts[2], b.fields[2] = field(r, 0, 3, true)
	} else {
		texts[2], b.fields[2] = field(r, 0, 23, false)
	}
	for i, limits := range map[int][2]int{3: {1, 31}, 4: {1, 12}, 5: {0, 6}} {
		texts[i], b.fields[i] = "*", map[int]bool{}
		for value := limits[0]; value <= limits[1]; value++ {
			b.fields[i][value] = true
		}
	}
	if r.IntN(2) == 0 {
		texts[3], b.fields[3] = field(r, 1, 31, false)
	}
	if r.IntN(4) == 0 {
		texts[4], b.fields[4] = field(r, 1, 12, false)
	}
	if r.IntN(2) == 0 {
		texts[5], b.fields[5] = field(r, 0, 6, false)
	}
	if r.IntN(6) == 0 {
		texts[3], b.fields[3] = "L", nil
		b.day = func(wall time.Time) bool { return wall.AddDate(0, 0, 1).Day() == 1 }
	}
	if weekday, nth := r.IntN(7), 1+r.IntN(6); r.IntN(6) == 0 {
		texts[5], b.fields[5] = fmt.Sprintf("%d#%d", weekday, nth), nil
		b.week = func(wall time.Time) bool { return int(wall.Weekday()) == weekday && (wall.Day()+6)/7 == nth }
		if nth == 6 {
			texts[5] = fmt.Sprintf("%d#L", weekday)
			b.week = func(wall time.Time) bool {
				return int(wall.Weekday()) == weekday && wall.AddDate(0, 0, 7).Month() != wall.Month()
			}
		}
	}
	b.either = texts[3][0] != '*' && texts[5][0] != '*'
	b.elapsed = texts[2][0] == '*'
	if !seconds {
		texts = texts[1:]
	}
	return strings.Join(texts, " "), b
}

// changes returns the instants in the ten years at which the clock of a zone changes, to the hour.
func changes(zone *time.Location) []time.Time {
	var all []time.Time
	_, last := tenYears[0].In(zone).Zone()
	for now := tenYears[0]; now.Before(tenYears[1]); now = now.Add(time.Hour) {
		if _, offset := now.In(zone).Zone(); offset != last {
			all, last = append(all, now), offset
		}
	}
	return all
}

// compare fails unless Next gives the instants of the second implementation.
func compare(t *testing.T, r *rand.Rand, text string, b *brute, zone *time.Location, from, to time.Time) {
	t.Helper()
	rule, err := when.Parse(when.Spec{Cron: text, Zone: zone.String()})
	if err != nil { // such as 30 February
		require.ErrorContains(t, err, "never runs", text)
		require.Empty(t, b.instants(zone, from, to), text)
		return
	}
	instants, last := b.instants(zone, from, to), from
	for n := range len(instants) + 1 {
		follows(t, rule, text, zone, last, to, instants[n:])
		if n < len(instants) {
			last = instants[n]
		}
	}
	for range 50 { // callers may ask for the instants after any time, such as one in a repeated hour
		after := from.Add(time.Duration(r.Int64N(int64(to.Sub(from)))))
		later, _ := slices.BinarySearchFunc(instants, after, func(one, after time.Time) int { return cmp.Compare(one.UnixNano(), after.UnixNano()+1) })
		follows(t, rule, text, zone, after, to, instants[later:])
	}
}

// follows fails unless the first of the given instants is the next one after the given time, or none comes up to the end.
func follows(t *testing.T, rule *when.Rule, text string, zone *time.Location, after, to time.Time, instants []time.Time) {
	t.Helper()
	got, ok := rule.Next(after)
	want, right := "none", !ok || got.After(to)
	if len(instants) > 0 {
		want, right = instants[0].In(zone).String(), ok && got.Equal(instants[0])
	}
	if !right {
		require.Equal(t, want, got.In(zone).String(), "cron %q in %v after %v", text, zone, after.In(zone))
	}
}

// Windows of the ten years, around changes of the clock and elsewhere, are compared in each run. With -when.long 20, the test
// compares 20 expressions over all ten years in each zone.
func TestNextAgreesWithASearchThroughEveryMinute(t *testing.T) {
	t.Parallel()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("repeat with -when.seed %d", seed)
	for n, name := range zones {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, uint64(n)))
			zone, err := time.LoadLocation(name)
			require.NoError(t, err)
			moved := changes(zone)
			require.NotEmpty(t, moved)
			for round := range 60 {
				from := tenYears[0].Add(time.Duration(r.Int64N(int64(tenYears[1].Sub(tenYears[0]))))).Truncate(time.Minute)
				length := time.Duration(4+r.IntN(20)) * 24 * time.Hour
				if round%3 > 0 {
					from = moved[r.IntN(len(moved))].Add(-time.Duration(r.IntN(49)) * time.Hour)
					length = 96 * time.Hour
				}
				text, b := random(r, false)
				compare(t, r, text, b, zone, from, from.Add(length))
			}
			for range 3 {
				text, b := random(r, true)
				from := moved[r.IntN(len(moved))].Add(-time.Duration(r.IntN(60*60*2)) * time.Second)
				compare(t, r, text, b, zone, from, from.Add(3*time.Hour))
			}
			for range *longFlag {
				text, b := random(r, false)
				compare(t, r, text, b, zone, tenYears[0], tenYears[1])
			}
		})
	}
}
