package when_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/schedule/when"
	"github.com/belfry-mq/belfry/pkg/queue"
)

func TestParseSaysWhatToChange(t *testing.T) {
	t.Parallel()
	day := at(t, "2026-11-27T08:00:00Z")
	cron := func(text string) when.Spec { return when.Spec{Cron: text} }
	for want, spec := range map[string]when.Spec{
		"the schedule has no instants: give one of cron, every and at":                                         {Zone: "Europe/Rome"},
		"the schedule has more than one of cron, every and at: give only one of them":                          {Cron: "@daily", At: day},
		"every is 999ms: give at least 1s":                                                                     {Every: 999 * time.Millisecond},
		"every is -1h0m0s: give at least 1s":                                                                   {Every: -time.Hour},
		"every is 1.000000001s: give whole microseconds":                                                       {Every: time.Second + 1},
		"ends is not after starts: give a later ends, or leave it out":                                         {Every: time.Hour, Starts: day, Ends: day},
		"at is before starts: give a later at, or an earlier starts":                                           {At: day, Starts: day.Add(time.Microsecond)},
		"at is not before ends: give an earlier at, or a later ends":                                           {At: day, Ends: day},
		"at is in the year 10000: give a year from 1 to 9999":                                                  {At: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
		"starts is in the year 0: give a year from 1 to 9999":                                                  {Every: time.Hour, Starts: time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)},
		"no instant of the schedule comes between starts and the end of the year 9999: give an earlier starts": {Cron: "0 0 1 1 *", Starts: time.Date(9999, 6, 1, 0, 0, 0, 0, time.UTC)},
		"no instant of the schedule comes between starts and ends, because the first one is 2026-11-30T08:00:00Z: give a later ends": {
			Cron: "0 8 * * 1", Starts: day, Ends: day.AddDate(0, 0, 3)},
		`zone "Europe/Roma" is unknown: give the IANA name of a time zone, such as "Europe/Rome"`: {Cron: "@daily", Zone: "Europe/Roma"},
		`zone "../etc/passwd" is unknown: give the IANA name of a time zone`:                      {Every: time.Hour, Zone: "../etc/passwd"},
		`zone has 65 bytes: give the IANA name of a time zone`:                                    {Every: time.Hour, Zone: strings.Repeat("x", 65)},
		`zone is "Local": give the IANA name of a time zone, such as "Europe/Rome"`:               {Cron: "@daily", Zone: "Local"},

		`cron has 2001 bytes: give at most 512`:                                    cron(strings.Repeat("1,", 1000) + "1"),
		`cron is "@every 15m": give the duration as every`:                         cron("@every 15m"),
		`cron "@noon" is unknown: give five or six fields, or @yearly`:             cron("@noon"),
		`cron "CRON_TZ=UTC 0 8 * * *" has a time zone: give the time zone as zone`: cron("CRON_TZ=UTC 0 8 * * *"),
		`cron "TZ=0" has a time zone: give the time zone as zone`:                  cron("TZ=0"),
		`cron "8" has the wrong number of fields (1): give five`:                   cron("8"),
		`cron "0 0 8 * * * 2027" has the wrong number of fields (7)`:               cron("0 0 8 * * * 2027"),

		`the second of cron is "60": give 0 to 59, *,`:                                                                           cron("60 0 8 * * *"),
		`the minute of cron is "60": give 0 to 59, *, a range (1-5), a step (*/2 or`:                                             cron("60 8 * * *"),
		`the hour of cron is "24": give 0 to 23`:                                                                                 cron("0 24 * * *"),
		`the hour of cron is "8h": give 0 to 23`:                                                                                 cron("0 8h * * *"),
		`the hour of cron is "+8": give 0 to 23`:                                                                                 cron("0 +8 * * *"),
		`the hour of cron is "?": give 0 to 23`:                                                                                  cron("0 ? * * *"),
		`the hour of cron is "*-5": give 0 to 23`:                                                                                cron("0 *-5 * * *"),
		`the hour of cron is "8,,9": give 0 to 23`:                                                                               cron("0 8,,9 * * *"),
		`the hour of cron is ",": give 0 to 23`:                                                                                  cron("0 , * * *"),
		`the hour of cron is "*/0": give 0 to 23`:                                                                                cron("0 */0 * * *"),
		`the hour of cron is "*/24": give 0 to 23`:                                                                               cron("0 */24 * * *"),
		`the hour of cron is "1-5/99999999999999999999": give 0 to 23`:                                                           cron("0 1-5/99999999999999999999 * * *"),
		`the day of the month of cron is "0": give 1 to 31, L (the last day)`:                                                    cron("0 8 0 * *"),
		`the day of the month of cron is "32W": give 1 to 31`:                                                                    cron("0 8 32W * *"),
		`the month of cron is "JUNE": give 1 to 12, or JAN to DEC`:                                                               cron("0 8 * JUNE *"),
		`the day of the week of cron is "8": give 0 to 7 (0 and 7 are Sunday)`:                                                   cron("0 8 * * 8"),
		`the day of the week of cron is "MON#6": give 0 to 7`:                                                                    cron("0 8 * * MON#6"),
		`the day of the week of cron is "FRI-MON/2", which has a step over a range that passes Sunday: write the days as a list`: cron("0 8 * * FRI-MON/2"),

		`cron "0 8 30 2 *" never runs, because no date has its day of the month, month and day of the week: change one of them`: cron("0 8 30 2 *"),
		`cron "0 8 31 4,6,9,11 *" never runs`: cron("0 8 31 4,6,9,11 *"),
		`cron "0 8 31W 2 *" never runs`:       cron("0 8 31W 2 *"),
		`cron "0 8 L-30 2 *" never runs`:      cron("0 8 L-30 2 *"),
	} {
		rule, err := when.Parse(spec)
		require.Nil(t, rule, want)
		require.ErrorContains(t, err, want)
		require.Equal(t, queue.CodeInvalid, queue.CodeOf(err), want)
	}
}

func TestSentence(t *testing.T) {
	t.Parallel()
	for cron, want := range map[string]string{
		"0 8 * * 1-5":         "every weekday at 08:00, Europe/Rome",
		"0 8 * * MON-FRI":     "every weekday at 08:00, Europe/Rome",
		"@daily":              "every day at 00:00, Europe/Rome",
		"30 15 8 * * *":       "every day at 08:15:30, Europe/Rome",
		"0 8,20 * * *":        "every day at 08:00 and 20:00, Europe/Rome",
		"0,30 8-10 * * 6,0":   "every Saturday and Sunday at 08:00, 08:30, 09:00, 09:30, 10:00 and 10:30, Europe/Rome",
		"@weekly":             "every Sunday at 00:00, Europe/Rome",
		"0 8 * * 1,3,5":       "every Monday, Wednesday and Friday at 08:00, Europe/Rome",
		"0 8 * 7,8 1-5":       "every weekday in July and August at 08:00, Europe/Rome",
		"0 8 * DEC *":         "every day in December at 08:00, Europe/Rome",
		"@monthly":            "on day 1 of every month at 00:00, Europe/Rome",
		"0 8 1,15 * *":        "on days 1 and 15 of every month at 08:00, Europe/Rome",
		"0 8 L * *":           "on the last day of every month at 08:00, Europe/Rome",
		"0 8 L 3,6,9,12 *":    "on the last day of March, June, September and December at 08:00, Europe/Rome",
		"0 8 * * MON#1":       "on the first Monday of every month at 08:00, Europe/Rome",
		"0 8 * 5 FRI#L":       "on the last Friday of May at 08:00, Europe/Rome",
		"@yearly":             "every year on 1 January at 00:00, Europe/Rome",
		"0 8 29 2 *":          "every year on 29 February at 08:00, Europe/Rome",
		"* * * * *":           "every minute, Europe/Rome",
		"*/15 * * * *":        "every 15 minutes, Europe/Rome",
		"0,15,30,45 * * * *":  "every 15 minutes, Europe/Rome",
		"@hourly":             "every hour, Europe/Rome",
		"5 * * * *":           "at minute 5 of every hour, Europe/Rome",
		"5,35 * * * *":        "at minutes 5 and 35 of every hour, Europe/Rome",
		"0 */2 * * *":         "every 2 hours, Europe/Rome",
		"* * * * * *":         "every second, Europe/Rome",
		"*/10 * * * * *":      "every 10 seconds, Europe/Rome",
		"30 * * * * *":        "at second 30 of every minute, Europe/Rome",
		" 0  8 1-7 *  1 ":     "cron 0 8 1-7 * 1, Europe/Rome",
		"0 8 1-31 * 1":        "cron 0 8 1-31 * 1, Europe/Rome",
		"0 8 */2 * 1":         "cron 0 8 */2 * 1, Europe/Rome",
		"*/7 * * * *":         "cron */7 * * * *, Europe/Rome",
		"0 8-18/2 * * *":      "cron 0 8-18/2 * * *, Europe/Rome",
		"0 8-18 * * *":        "cron 0 8-18 * * *, Europe/Rome",
		"*/15 * * * 1-5":      "cron */15 * * * 1-5, Europe/Rome",
		"0 8 15W * *":         "cron 0 8 15W * *, Europe/Rome",
		"0 8 * * MON#1,FRI#1": "cron 0 8 * * MON#1,FRI#1, Europe/Rome",
		"0 8 1,2 3,4 *":       "cron 0 8 1,2 3,4 *, Europe/Rome",
		"30 5 * * * *":        "cron 30 5 * * * *, Europe/Rome",
		"0 5 */2 * * *":       "cron 0 5 */2 * * *, Europe/Rome",
	} {
		require.Equal(t, want, sentence(t, when.Spec{Cron: cron, Zone: "Europe/Rome"}), cron)
	}
	for want, spec := range map[string]when.Spec{
		"every 15 minutes":                     {Cron: "*/15 * * * *"},
		"every weekday at 08:00, UTC":          {Cron: "0 8 * * 1-5", Zone: "UTC"},
		"every second":                         {Every: time.Second},
		"every hour":                           {Every: time.Hour, Zone: "Europe/Rome"},
		"every 24 hours":                       {Every: 24 * time.Hour},
		"every 1 hour 30 minutes":              {Every: 90 * time.Minute},
		"every 1 second 500 milliseconds":      {Every: 1500 * time.Millisecond},
		"on 16 May 2026 at 08:41:27, UTC":      {At: at(t, "2026-05-16T08:41:27Z")},
		"on 16 May 2026 at 10:41, Europe/Rome": {At: at(t, "2026-05-16T08:41:00Z"), Zone: "Europe/Rome"},
	} {
		require.Equal(t, want, sentence(t, spec))
	}
}

func sentence(t *testing.T, spec when.Spec) string {
	t.Helper()
	rule, err := when.Parse(spec)
	require.NoError(t, err, spec.Cron)
	return rule.Sentence()
}

// FuzzParse reads any texts. Parse does not panic. An error says what to change. A Rule has an instant and a sentence.
func FuzzParse(f *testing.F) {
	for _, cron := range []string{"0 8 * * 1-5", "*/15 8-18/2 L,15W 2 MON#1,FRI#L", "@daily", "@every 1s", "TZ=0", "TZ= 0 8 * * *", "0 0 30 2 *", "1 2 3 4 5 6 7", "?"} {
		f.Add(cron, "Europe/Rome", int64(0), int64(0))
	}
	f.Add("", "Pacific/Apia", int64(time.Hour), int64(0))
	f.Add("", "../..", int64(0), int64(1795766400))
	f.Fuzz(func(t *testing.T, cron, zone string, every, unix int64) {
		spec := when.Spec{Cron: cron, Zone: zone, Every: time.Duration(every)}
		if unix != 0 {
			spec.At = time.Unix(unix, 0)
		}
		rule, err := when.Parse(spec)
		if err != nil {
			require.Equal(t, queue.CodeInvalid, queue.CodeOf(err))
			require.Regexp(t, `(cron|every|at|zone|starts|ends) .*(give|change|write) `, err.Error())
			return
		}
		next, ok := rule.Next(time.Time{})
		require.True(t, ok)
		again, ok := rule.Next(next)
		require.True(t, !ok || again.After(next))
		require.NotEmpty(t, rule.Sentence())
	})
}
