package when_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/schedule/when"
)

// at reads an instant.
func at(t *testing.T, text string) time.Time {
	t.Helper()
	instant, err := time.Parse(time.RFC3339Nano, text)
	require.NoError(t, err)
	return instant
}

// following returns the instants after the given one as the clock of the zone shows them. It stops after limit instants.
func following(t *testing.T, spec when.Spec, after string, limit int) []string {
	t.Helper()
	rule, err := when.Parse(spec)
	require.NoError(t, err)
	zone, err := time.LoadLocation(spec.Zone)
	require.NoError(t, err)
	var all []string
	for from := at(t, after); len(all) < limit; {
		next, ok := rule.Next(from)
		if !ok {
			break
		}
		require.True(t, next.After(from), "%v does not follow %v", next, from)
		require.Equal(t, time.UTC, next.Location())
		all = append(all, next.In(zone).Format("2006-01-02T15:04:05-07:00"))
		from = next
	}
	return all
}

// The cases of this table are the promises of the package doc about changes of the clock.
func TestInstantsWhenTheClockChanges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cron, zone, after string
		want              []string
	}{
		"a skipped time runs after the gap": {"30 2 * * *", "Europe/Rome", "2026-03-28T00:00:00Z",
			[]string{"2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"}},
		"several skipped times run once": {"*/10 2 29 3 *", "Europe/Rome", "2026-03-29T00:00:00Z",
			[]string{"2026-03-29T03:00:00+02:00", "2027-03-29T02:00:00+02:00"}},
		"a skipped time and the end of the gap run once": {"0 2,3 * * *", "Europe/Rome", "2026-03-28T22:00:00Z",
			[]string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"}},
		"a repeated time runs once": {"30 2 * * *", "Europe/Rome", "2026-10-24T12:00:00Z",
			[]string{"2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"}},
		"a repeated time does not run again for a caller that starts between both": {"30 2 * * *", "Europe/Rome", "2026-10-25T01:10:00Z",
			[]string{"2026-10-26T02:30:00+01:00"}},
		"fixed hours run each minute of a repeated hour once": {"*/30 1-3 * * *", "Europe/Rome", "2026-10-24T23:00:00Z",
			[]string{"2026-10-25T01:30:00+02:00", "2026-10-25T02:00:00+02:00", "2026-10-25T02:30:00+02:00", "2026-10-25T03:00:00+01:00"}},
		"wildcard hours run through a repeated hour": {"*/30 * * * *", "Europe/Rome", "2026-10-25T00:00:00Z",
			[]string{"2026-10-25T02:30:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T02:30:00+01:00", "2026-10-25T03:00:00+01:00"}},
		"wildcard hours pass a gap": {"*/30 * * * *", "Europe/Rome", "2026-03-29T00:00:00Z",
			[]string{"2026-03-29T01:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-29T03:30:00+02:00"}},
		"hourly passes a gap":    {"@hourly", "Europe/Rome", "2026-03-28T23:30:00Z", []string{"2026-03-29T01:00:00+01:00", "2026-03-29T03:00:00+02:00"}},
		"hourly repeats an hour": {"@hourly", "Europe/Rome", "2026-10-24T23:30:00Z", []string{"2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T03:00:00+01:00"}},
		"a step of hours does not run in a gap": {"0 */2 * * *", "Europe/Rome", "2026-03-28T22:30:00Z",
			[]string{"2026-03-29T00:00:00+01:00", "2026-03-29T04:00:00+02:00"}},
		"a step over a range of hours is a wildcard": {"0 2-6/2 * * *", "Europe/Rome", "2026-10-24T23:30:00Z",
			[]string{"2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T04:00:00+01:00"}},
		"a list of all hours is fixed": {"0 0-23 * * *", "Europe/Rome", "2026-10-24T23:30:00Z",
			[]string{"2026-10-25T02:00:00+02:00", "2026-10-25T03:00:00+01:00"}},
		"seconds in a gap": {"15 30 2 * * *", "Europe/Rome", "2026-03-28T23:00:00Z",
			[]string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:30:15+02:00"}},

		"Sao Paulo skips midnight": {"@daily", "America/Sao_Paulo", "2018-11-03T12:00:00Z",
			[]string{"2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"}},
		"Sao Paulo repeats 23:00": {"0 23 * * *", "America/Sao_Paulo", "2018-02-17T12:00:00Z",
			[]string{"2018-02-17T23:00:00-02:00", "2018-02-18T23:00:00-03:00"}},
		"Sao Paulo has no daylight saving any more": {"0 0 4 11 *", "America/Sao_Paulo", "2018-11-04T12:00:00Z",
			[]string{"2019-11-04T00:00:00-03:00"}},
		"Casablanca turns back for Ramadan": {"30 2 * * *", "Africa/Casablanca", "2024-03-09T12:00:00Z",
			[]string{"2024-03-10T02:30:00+01:00", "2024-03-11T02:30:00+00:00"}},
		"Casablanca turns forward after Ramadan": {"30 2 * * *", "Africa/Casablanca", "2024-04-13T12:00:00Z",
			[]string{"2024-04-14T03:00:00+01:00", "2024-04-15T02:30:00+01:00"}},
		"Pyongyang turned back half an hour": {"45 23 * * *", "Asia/Pyongyang", "2015-08-14T00:00:00Z",
			[]string{"2015-08-14T23:45:00+09:00", "2015-08-15T23:45:00+08:30"}},
		"Pyongyang turned forward half an hour": {"45 23 * * *", "Asia/Pyongyang", "2018-05-04T00:00:00Z",
			[]string{"2018-05-05T00:00:00+09:00", "2018-05-05T23:45:00+09:00"}},
		"Apia skipped a day": {"0 8 * * *", "Pacific/Apia", "2011-12-29T00:00:00Z",
			[]string{"2011-12-29T08:00:00-10:00", "2011-12-31T00:00:00+14:00", "2011-12-31T08:00:00+14:00"}},
		"Apia skipped the only day": {"0 8 30 12 *", "Pacific/Apia", "2011-01-01T00:00:00Z",
			[]string{"2011-12-31T00:00:00+14:00", "2012-12-30T08:00:00+14:00"}},
		"Apia hourly over the skipped day": {"@hourly", "Pacific/Apia", "2011-12-30T08:30:00Z",
			[]string{"2011-12-29T23:00:00-10:00", "2011-12-31T00:00:00+14:00"}},
		"Kwajalein skipped a day in 1993": {"0 12 * * *", "Pacific/Kwajalein", "1993-08-20T12:00:00Z",
			[]string{"1993-08-20T12:00:00-12:00", "1993-08-22T00:00:00+12:00", "1993-08-22T12:00:00+12:00"}},
		"Kwajalein repeated a day in 1969": {"0 12 30 9 *", "Pacific/Kwajalein", "1969-09-01T00:00:00Z",
			[]string{"1969-09-30T12:00:00+11:00", "1970-09-30T12:00:00-12:00"}},
		"Kwajalein hourly in 1969": {"0 */12 30 9 *", "Pacific/Kwajalein", "1969-09-29T20:00:00Z",
			[]string{"1969-09-30T12:00:00+11:00", "1969-09-30T12:00:00-12:00", "1970-09-30T00:00:00-12:00"}},
		"Lord Howe skips half an hour": {"15 2 * * *", "Australia/Lord_Howe", "2025-10-04T12:00:00Z",
			[]string{"2025-10-05T02:30:00+11:00", "2025-10-06T02:15:00+11:00"}},
		"Lord Howe repeats half an hour": {"45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00:00Z",
			[]string{"2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"}},
		"Troll skips two hours": {"0 1-2 * * *", "Antarctica/Troll", "2026-03-28T12:00:00Z",
			[]string{"2026-03-29T03:00:00+02:00", "2026-03-30T01:00:00+02:00", "2026-03-30T02:00:00+02:00"}},
		"Troll repeats two hours": {"0 1-3 * * *", "Antarctica/Troll", "2026-10-24T12:00:00Z",
			[]string{"2026-10-25T01:00:00+02:00", "2026-10-25T02:00:00+02:00", "2026-10-25T03:00:00+00:00"}},
		"Lisbon moved to another zone in 1992 without a jump": {"30 1 * * *", "Europe/Lisbon", "1992-09-26T12:00:00Z",
			[]string{"1992-09-27T01:30:00+01:00", "1992-09-28T01:30:00+01:00"}},
		"Monrovia had an offset with seconds": {"30 0 7 1 *", "Africa/Monrovia", "1971-06-01T00:00:00Z",
			[]string{"1972-01-07T00:44:30+00:00", "1973-01-07T00:30:00+00:00"}},
		"a zone east of the date line": {"0 0 1 1 *", "Pacific/Kiritimati", "2026-12-01T00:00:00Z", []string{"2027-01-01T00:00:00+14:00"}},
	} {
		got := following(t, when.Spec{Cron: c.cron, Zone: c.zone}, c.after, len(c.want))
		for i := range got {
			got[i] = got[i][:len(c.want[0])]
		}
		require.Equal(t, c.want, got, name)
	}
}

func TestInstantsOfTheCalendar(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cron, after string
		want        []string
	}{
		"months without a 31st": {"0 8 31 * *", "2026-01-31T08:00:00Z", []string{"03-31T08:00", "05-31T08:00", "07-31T08:00", "08-31T08:00", "10-31T08:00", "12-31T08:00", "01-31T08:00"}},
		"a leap day":            {"0 0 29 2 *", "2026-11-27T00:00:00Z", []string{"2028-02-29T00:00", "2032-02-29T00:00"}},
		"no leap day in 2100":   {"0 0 29 2 *", "2096-03-01T00:00:00Z", []string{"2104-02-29T00:00"}},
		"a leap day in 2000":    {"0 0 29 2 *", "1996-03-01T00:00:00Z", []string{"2000-02-29T00:00"}},
		"a fifth Friday of February comes every 28 years": {"0 0 * 2 FRI#5", "2008-03-01T00:00:00Z", []string{"2036-02-29T00:00"}},
		"the end of a year":                  {"59 59 23 * * *", "2026-12-31T23:59:58.5Z", []string{"2026-12-31T23:59:59", "2027-01-01T23:59:59"}},
		"weekdays":                           {"0 8 * * 1-5", "2026-11-27T08:00:00Z", []string{"2026-11-30T08:00"}},
		"7 is Sunday":                        {"0 8 * * 7", "2026-11-27T08:00:00Z", []string{"2026-11-29T08:00", "2026-12-06T08:00"}},
		"a range over Sunday":                {"0 8 * * FRI-MON", "2026-11-26T08:00:00Z", []string{"2026-11-27", "2026-11-28", "2026-11-29", "2026-11-30", "2026-12-04"}},
		"a range to Sunday":                  {"0 8 * * sat-sun", "2026-11-26T08:00:00Z", []string{"2026-11-28", "2026-11-29", "2026-12-05"}},
		"a range over the year":              {"0 0 1 NOV-FEB *", "2026-11-27T00:00:00Z", []string{"2026-12-01", "2027-01-01", "2027-02-01", "2027-11-01"}},
		"a range over midnight":              {"0 22-1 * * *", "2026-11-27T12:00:00Z", []string{"2026-11-27T22", "2026-11-27T23", "2026-11-28T00", "2026-11-28T01", "2026-11-28T22"}},
		"one of two day fields":              {"0 8 13 * 5", "2026-11-27T08:00:00Z", []string{"2026-12-04", "2026-12-11", "2026-12-13", "2026-12-18"}},
		"both day fields if one has a *":     {"0 8 */2 * 1", "2026-11-27T08:00:00Z", []string{"2026-12-07", "2026-12-21", "2027-01-11"}},
		"? is *":                             {"0 8 ? * 1", "2026-11-27T08:00:00Z", []string{"2026-11-30", "2026-12-07"}},
		"the last day":                       {"0 8 L * *", "2026-11-27T08:00:00Z", []string{"2026-11-30", "2026-12-31", "2027-01-31", "2027-02-28"}},
		"before the last day":                {"0 8 L-30 * *", "2026-11-27T08:00:00Z", []string{"2026-12-01", "2027-01-01", "2027-03-01"}},
		"the last day from Monday to Friday": {"0 8 LW * *", "2026-10-01T08:00:00Z", []string{"2026-10-30", "2026-11-30", "2026-12-31", "2027-01-29", "2027-02-26"}},
		"the nearest day":                    {"0 8 1W * *", "2026-07-02T08:00:00Z", []string{"2026-08-03", "2026-09-01", "2026-10-01", "2026-11-02"}},
		"the nearest day, month end":         {"0 8 31W * *", "2026-05-01T08:00:00Z", []string{"2026-05-29", "2026-07-31", "2026-08-31", "2026-10-30"}},
		"the nearest day, in the month":      {"0 8 15W * *", "2026-08-01T08:00:00Z", []string{"2026-08-14", "2026-09-15", "2026-10-15", "2026-11-16"}},
		"the first Monday":                   {"0 8 * * MON#1", "2026-11-27T08:00:00Z", []string{"2026-12-07", "2027-01-04", "2027-02-01"}},
		"the last Friday":                    {"0 8 * * 5#L", "2026-11-27T08:00:00Z", []string{"2026-12-25", "2027-01-29"}},
		"yearly":                             {"@yearly", "2026-11-27T00:00:00Z", []string{"2027-01-01T00:00:00", "2028-01-01T00:00:00"}},
		"monthly":                            {"@Monthly", "2026-11-27T00:00:00Z", []string{"2026-12-01T00:00:00"}},
		"weekly":                             {"@weekly", "2026-11-27T00:00:00Z", []string{"2026-11-29T00:00:00"}},
		"midnight":                           {"@midnight", "2026-11-27T00:00:00Z", []string{"2026-11-28T00:00:00"}},
		"every second":                       {"* * * * * *", "2026-11-27T00:00:00.999999999Z", []string{"2026-11-27T00:00:01", "2026-11-27T00:00:02"}},
		"before the year 1970":               {"0 0 1 1 *", "0001-01-01T00:00:00Z", []string{"0002-01-01"}},
		"the last year":                      {"0 0 1 12 *", "9998-12-31T00:00:00Z", []string{"9999-12-01"}},
	} {
		got := following(t, when.Spec{Cron: c.cron}, c.after, len(c.want))
		require.Len(t, got, len(c.want), name)
		for i := range got {
			require.Contains(t, got[i], c.want[i], name)
		}
	}
}

func TestEveryCountsElapsedTime(t *testing.T) {
	t.Parallel()
	hour := when.Spec{Every: time.Hour, Zone: "Europe/Rome"}
	require.Equal(t, []string{"2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T03:00:00+01:00"}, following(t, hour, "2026-10-24T23:00:00Z", 3))
	day := when.Spec{Every: 24 * time.Hour, Zone: "Europe/Rome", Starts: at(t, "2026-03-27T07:00:00.0000019Z")}
	require.Equal(t, []string{"2026-03-27T08:00:00+01:00", "2026-03-28T08:00:00+01:00", "2026-03-29T09:00:00+02:00"}, following(t, day, "2020-01-01T00:00:00Z", 3))
	week, err := when.Parse(when.Spec{Every: 7 * 24 * time.Hour})
	require.NoError(t, err)
	for after, want := range map[string]string{
		"2026-11-27T00:00:00Z":         "2026-12-03T00:00:00Z", // the Unix epoch was a Thursday
		"1970-01-01T00:00:00Z":         "1970-01-08T00:00:00Z",
		"1969-12-31T23:59:59.9999995Z": "1970-01-01T00:00:00Z",
		"1969-12-25T00:00:00Z":         "1970-01-01T00:00:00Z",
		"1969-12-24T23:59:59Z":         "1969-12-25T00:00:00Z",
		"0001-01-01T00:00:00Z":         "0001-01-04T00:00:00Z",
		"9999-12-20T00:00:00Z":         "9999-12-23T00:00:00Z",
	} {
		next, ok := week.Next(at(t, after))
		require.True(t, ok, after)
		require.Equal(t, want, next.Format(time.RFC3339Nano), after)
	}
	_, ok := week.Next(at(t, "9999-12-30T00:00:00Z"))
	require.False(t, ok)
}

func TestInstantsLieBetweenStartsAndEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec when.Spec
		want []string
	}{
		"starts is an instant, ends is none": {when.Spec{Cron: "0 * * * *", Starts: at(t, "2026-11-27T10:00:00Z"), Ends: at(t, "2026-11-27T12:00:00Z")},
			[]string{"2026-11-27T10:00:00+00:00", "2026-11-27T11:00:00+00:00"}},
		"every": {when.Spec{Every: time.Minute, Starts: at(t, "2026-11-27T10:00:30Z"), Ends: at(t, "2026-11-27T10:02:31Z")},
			[]string{"2026-11-27T10:00:30+00:00", "2026-11-27T10:01:30+00:00", "2026-11-27T10:02:30+00:00"}},
		"at":           {when.Spec{At: at(t, "2026-11-27T10:00:30.5Z")}, []string{"2026-11-27T10:00:30+00:00"}},
		"at is starts": {when.Spec{At: at(t, "2026-11-27T10:00:30Z"), Starts: at(t, "2026-11-27T10:00:30Z")}, []string{"2026-11-27T10:00:30+00:00"}},
		"ends":         {when.Spec{Cron: "0 0 1 1 *", Ends: at(t, "2026-06-01T00:00:00Z")}, []string{"2025-01-01T00:00:00+00:00", "2026-01-01T00:00:00+00:00"}},
	} {
		require.Equal(t, c.want, following(t, c.spec, "2024-06-01T00:00:00Z", 10), name)
	}
	rule, err := when.Parse(when.Spec{At: at(t, "2026-11-27T10:00:30.0000019Z")})
	require.NoError(t, err)
	next, ok := rule.Next(time.Time{})
	require.True(t, ok)
	require.Equal(t, at(t, "2026-11-27T10:00:30.000001Z"), next, "Postgres keeps microseconds")
	_, ok = rule.Next(next)
	require.False(t, ok, "an instant does not follow itself")
}

func TestJitterDependsOnlyOnItsArguments(t *testing.T) {
	t.Parallel()
	instant := at(t, "2026-11-27T08:00:00Z")
	require.Zero(t, when.Jitter("report", instant, 0))
	require.Zero(t, when.Jitter("report", instant, -time.Second))
	require.Zero(t, when.Jitter("report", instant, time.Microsecond))
	// These delays must never change: instances of two versions may compute them.
	require.Equal(t, 10998416*time.Microsecond, when.Jitter("report", instant, time.Minute))
	require.Equal(t, 20196415*time.Microsecond, when.Jitter("report", instant.Add(time.Hour), time.Minute))
	require.Equal(t, 55266817*time.Microsecond, when.Jitter("other", instant, time.Minute))
	rome, err := time.LoadLocation("Europe/Rome")
	require.NoError(t, err)
	require.Equal(t, when.Jitter("report", instant, time.Minute), when.Jitter("report", instant.In(rome), time.Minute))
	var quarters [4]int
	for n := range 4000 {
		delay := when.Jitter("report", instant.Add(time.Duration(n)*time.Minute), time.Second)
		require.GreaterOrEqual(t, delay, time.Duration(0))
		require.Less(t, delay, time.Second)
		quarters[delay/(time.Second/4)]++
	}
	for _, count := range quarters {
		require.InDelta(t, 1000, count, 150)
	}
}

func BenchmarkNext(b *testing.B) {
	for name, spec := range map[string]when.Spec{
		"every": {Every: time.Minute}, "fixed": {Cron: "0 8 * * 1-5", Zone: "Europe/Rome"}, "elapsed": {Cron: "*/15 * * * *", Zone: "Europe/Rome"},
		"leap day": {Cron: "0 8 29 2 *", Zone: "Europe/Rome"},
	} {
		rule, err := when.Parse(spec)
		require.NoError(b, err)
		b.Run(name, func(b *testing.B) {
			after := time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)
			for b.Loop() {
				if _, ok := rule.Next(after); !ok {
					b.Fatal("no instant")
				}
			}
		})
	}
}
