package integration_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	goclient "github.com/belfry-mq/belfry/pkg/client"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/client/schedules"
)

const schedulesPath = "/api/v1/schedules"

// schedule sets a schedule.
func (c client) schedule(name, body string) api.ScheduleSet {
	c.t.Helper()
	return ask[api.ScheduleSet](c, put(schedulesPath+"/"+escaped(name), body)).ok(http.StatusOK)
}

// A schedule that is set over HTTP sends its messages, with its variables, headers and partition, and can be run, paused, resumed
// and deleted. Each change is a row of the audit.
func TestASchedule(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	const body = `{"queue":"reports","every":"1s","partition":"p","payload":{"who":"{{schedule}}","at":"{{scheduled_at}}"},"headers":{"By":"{{schedule}}"}}`
	preview := ask[api.ScheduleSet](c, put(schedulesPath+"/a%2Fb?dryRun=true", body)).ok(http.StatusOK)
	require.Equal(t, []any{true, true, "every second", 10}, []any{preview.Created, preview.DryRun, preview.Schedule.Sentence, len(preview.Schedule.Next)})
	require.Equal(t, http.StatusNotFound, ask[api.Error](c.loose(), get(schedulesPath+"/a%2Fb")).Status, "a dry run stores nothing")
	require.Empty(t, c.audit("action=schedule.set").Entries, "a dry run is no change")

	require.True(t, c.schedule("a/b", body).Created)
	require.False(t, c.schedule("a/b", body).Created)
	m := c.pop("reports", "wait=true&timeout=10000").ok(http.StatusOK).Messages[0]
	var sent struct{ Who, At string }
	require.NoError(t, json.Unmarshal(m.Data, &sent))
	require.Equal(t, []string{"a/b", "a/b@" + sent.At}, []string{sent.Who, m.TransactionID})
	stored := c.found("reports", "p", m.TransactionID)
	require.Equal(t, map[string]string{"by": "a/b"}, stored[0].Headers)

	paused := ask[api.SchedulePaused](c, post(schedulesPath+"/a%2Fb/pause", `{"reason":"broken"}`)).ok(http.StatusOK)
	require.Equal(t, api.SchedulePaused{Success: true, Name: "a/b", Paused: true, Changed: true}, paused)
	shown := ask[api.Schedule](c, get(schedulesPath+"/a%2Fb")).ok(http.StatusOK)
	require.Equal(t, []any{true, "broken"}, []any{*shown.Paused, *shown.PauseReason})
	require.Nil(t, shown.NextAt)
	require.NotNil(t, shown.LastAt)
	run := ask[api.ScheduleRun](c, post(schedulesPath+"/a%2Fb/run", "")).ok(http.StatusOK)
	require.Regexp(t, `^a/b@.*Z/run$`, run.TransactionID)
	until(t, "the message of the run is stored", func() bool { return len(c.found("reports", "p", run.TransactionID)) == 1 })
	require.True(t, *c.schedule("a/b", strings.Replace(body, "1s", "2s", 1)).Schedule.Paused, "a schedule that is set again stays paused")
	require.False(t, *c.schedule("a/b", strings.Replace(body, `"1s"`, `"1h","paused":false`, 1)).Schedule.Paused)
	require.False(t, ask[api.SchedulePaused](c, post(schedulesPath+"/a%2Fb/resume", "")).ok(http.StatusOK).Changed)
	next := ask[api.ScheduleInstants](c, get(schedulesPath+"/a%2Fb/next?n=3")).ok(http.StatusOK).Next
	require.Len(t, next, 3)
	require.Equal(t, time.Hour, next[2].Sub(next[1]))
	require.Equal(t, api.DeletedSchedule{Deleted: true, Name: "a/b"}, ask[api.DeletedSchedule](c, remove(schedulesPath+"/a%2Fb")).ok(http.StatusOK))
	require.Equal(t, http.StatusNotFound, ask[api.Error](c.loose(), remove(schedulesPath+"/a%2Fb")).Status)

	var actions []string
	for _, entry := range c.audit("limit=100").Entries {
		if entry.Result != "ok" {
			require.Equal(t, "schedule.delete not_found", entry.Action+" "+entry.Result)
			continue
		}
		require.Equal(t, []string{"reports"}, []string{entry.Queue}, entry.Action)
		require.Contains(t, string(entry.Parameters), `"schedule":"a/b"`)
		require.NotContains(t, string(entry.Parameters), "scheduled_at", "the audit has no payload")
		actions = append(actions, entry.Action+" "+entry.Result)
	}
	require.Equal(t, []string{"schedule.delete ok", "schedule.resume ok", "schedule.set ok", "schedule.set ok", "schedule.run ok", "schedule.pause ok", "schedule.set ok", "schedule.set ok"}, actions[len(actions)-8:])
}

// Each mistake in a schedule is a 400 that says what to change, also in a dry run.
func TestABadScheduleIsRefused(t *testing.T) {
	t.Parallel()
	c := start(t).client(t).loose()
	for body, want := range map[string]string{
		`"cron":"61 * * * *"`:                      "cron",
		`"cron":"* * *"`:                           "cron",
		`"cron":"0 8 30 2 *"`:                      "cron",
		`"cron":"@daily","zone":"Europe/Atlantis"`: `zone "Europe/Atlantis" is unknown`,
		`"every":"1500ms"`:                         "Give whole seconds",
		`"every":"9000h"`:                          "366 days",
		`"at":"2020-01-01T00:00:00Z"`:              "is in the past: Give a later instant",
		`"cron":"@daily","every":"1h"`:             "more than one of cron, every and at",
		`"zone":"Europe/Rome"`:                     "give one of cron, every and at",
		`"every":"1h","starts":"2030-01-02T00:00:00Z","ends":"2030-01-01T00:00:00Z"`: "ends is not after starts",
		`"every":"1h","jitter":"25h"`:                                 "Give a time from 0 to 1 day",
		`"every":"1h","missed":"some"`:                                "Use 'skip', 'one' or 'all'",
		`"every":"1h","headers":{"a b":"c"}`:                          "a name of a header",
		`"every":"1h","partition":".."`:                               "partition",
		`"every":"1h","payload":"` + strings.Repeat("x", 65536) + `"`: "at most 65536 bytes",
		`"every":"1h","payload":{"a":1e999}`:                          "payload.a",
	} {
		for _, query := range []string{"", "?dryRun=true"} {
			whole := `{"queue":"q",` + body + `}`
			if !strings.Contains(body, "payload") {
				whole = `{"queue":"q","payload":1,` + body + `}`
			}
			got := ask[api.Error](c, put(schedulesPath+"/s"+query, whole))
			require.Equal(t, http.StatusBadRequest, got.Status, "%s: %s", body, got.Raw)
			require.Contains(t, got.failure, want, body)
		}
	}
	got := ask[api.Error](c, put(schedulesPath+"/..%2F"+strings.Repeat("n", 200), `{"queue":"q","every":"1h","payload":1}`))
	require.Equal(t, http.StatusBadRequest, got.Status)
	got = ask[api.Error](c, put(schedulesPath+"/a%01b", `{"queue":"q","every":"1h","payload":1}`))
	require.Contains(t, got.failure, "control character")
	var n int
	c.scan(t, `SELECT count(*) FROM belfry.schedule`, nil, &n)
	require.Zero(t, n)
}

// A list has each schedule once, whatever the size of its pages.
func TestSchedulesAreListedInPages(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	var all []string
	for i := range 7 {
		all = append(all, fmt.Sprint("s", i))
		c.schedule(all[i], fmt.Sprintf(`{"queue":"q%d","cron":"@daily","payload":%d}`, i%2, i))
	}
	list := func(query string) (names []string) {
		for next := ""; ; {
			page := ask[api.SchedulePage](c, get(schedulesPath+"?"+query+next)).ok(http.StatusOK)
			for i := range page.Schedules {
				require.Equal(t, "every day at 00:00, UTC", page.Schedules[i].Sentence)
				names = append(names, page.Schedules[i].Name)
			}
			if page.Pagination.Next == nil {
				return names
			}
			next = "&cursor=" + escaped(*page.Pagination.Next)
		}
	}
	for _, limit := range []string{"", "limit=1", "limit=3", "limit=7"} {
		require.Equal(t, all, list(limit), limit)
		require.Equal(t, []string{"s1", "s3", "s5"}, list(limit+"&queue=q1"), limit)
		require.Equal(t, []string{"s4"}, list(limit+"&name=S4"), limit)
	}
}

func TestTheGoClientHasSchedules(t *testing.T) {
	t.Parallel()
	s := start(t)
	c, err := goclient.New(goclient.Config{URLs: []string{s.base}})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	ctx, all := t.Context(), c.Schedules()
	wanted := goclient.SetSchedule{Queue: "reports", Cron: "0 8 * * 1-5", Zone: "Europe/Rome", Payload: json.RawMessage(`{"a":1}`), Starts: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
	previewed, err := all.Preview(ctx, "a/b", wanted)
	require.NoError(t, err)
	require.True(t, previewed.DryRun)
	_, err = all.Get(ctx, "a/b")
	require.ErrorIs(t, err, goclient.ErrNotFound)
	for _, created := range []bool{true, false} {
		set, err := all.Set(ctx, "a/b", wanted)
		require.NoError(t, err)
		require.Equal(t, created, set.Created)
		require.Equal(t, "every weekday at 08:00, Europe/Rome", set.Schedule.Sentence)
	}
	shown, err := all.Get(ctx, "a/b")
	require.NoError(t, err)
	require.JSONEq(t, `{"a":1}`, string(shown.Payload))
	next, err := all.Next(ctx, "a/b", 2)
	require.NoError(t, err)
	require.Equal(t, []time.Time{time.Date(2030, 1, 1, 7, 0, 0, 0, time.UTC), time.Date(2030, 1, 2, 7, 0, 0, 0, time.UTC)}, next)
	for _, name := range []string{"x1", "x2", "x3"} {
		_, err := all.Set(ctx, name, goclient.SetSchedule{Queue: "other", Every: "1h", Payload: json.RawMessage(`1`)})
		require.NoError(t, err)
	}
	list := func(f schedules.Filter, most int) (names []string) {
		for one, err := range all.List(ctx, f) {
			require.NoError(t, err)
			if names = append(names, one.Name); len(names) == most {
				break
			}
		}
		return names
	}
	require.Equal(t, []string{"a/b", "x1", "x2", "x3"}, list(schedules.Filter{PageSize: 1}, 0))
	require.Equal(t, []string{"x1", "x2"}, list(schedules.Filter{Queue: "other", Name: "X", PageSize: 2}, 2))
	for _, want := range []bool{true, false} {
		changed, err := all.Pause(ctx, "x1", "broken")
		require.NoError(t, err)
		require.Equal(t, want, changed)
	}
	for _, want := range []bool{true, false} {
		changed, err := all.Resume(ctx, "x1")
		require.NoError(t, err)
		require.Equal(t, want, changed)
	}
	id, err := all.Run(ctx, "x1")
	require.NoError(t, err)
	require.Regexp(t, `^x1@.*/run$`, id)
	require.NoError(t, all.Delete(ctx, "a/b"))
	require.ErrorIs(t, all.Delete(ctx, "a/b"), goclient.ErrNotFound)
	_, err = all.Set(ctx, "bad", goclient.SetSchedule{Queue: "q", Payload: json.RawMessage(`1`)})
	require.ErrorIs(t, err, goclient.ErrInvalid)
	for _, err := range c.Schedules().List(ctx, schedules.Filter{Queue: strings.Repeat("q", 256)}) {
		require.ErrorIs(t, err, goclient.ErrInvalid)
	}
}

func scheduleCommands(x *terminal) {
	x.table("NAME QUEUE CREATED DRY-RUN INSTANTS NEXT\ndaily reports yes no every weekday at 08:00, Europe/Rome AT,AT",
		"schedule", "set", "daily", "--queue", "reports", "--cron", "0 8 * * 1-5", "--zone", "Europe/Rome", "--payload", `{"a": 1.50}`, "--header", "Tenant=acme", "--partition", "p", "--delay", "90s",
		"--starts", "2030-06-03T00:00:00Z", "--ends", "2030-06-05T00:00:00Z", "--jitter", "0s", "--missed", "skip", "--overlap-group", "g")
	shown, _ := x.json("schedule", "show", "daily").(map[string]any)
	for _, name := range []string{"createdAt", "changedAt", "nextAt", "scheduledBy"} {
		delete(shown, name)
	}
	require.JSONEq(x.t, `{"name":"daily","queue":"reports","partition":"p","cron":"0 8 * * 1-5","zone":"Europe/Rome","payload":{"a":1.5},"headers":{"tenant":"acme"},"delaySeconds":90,
		"starts":"2030-06-03T00:00:00.000Z","ends":"2030-06-05T00:00:00.000Z","missed":"skip","overlapGroup":"g","paused":false,"sentence":"every weekday at 08:00, Europe/Rome","pauseReason":null,
		"next":["2030-06-03T06:00:00.000Z","2030-06-04T06:00:00.000Z"],"lastAt":null,"lastTransactionId":null,"error":null}`, encode(shown))
	x.table("AT\nAT", "schedule", "next", "daily", "--n", "1")
	_, out, _ := x.run("", "schedule", "set", "often", "--queue", "reports", "--every", "2d", "--dry-run")
	require.Regexp(x.t, `(?m)^often +reports +yes +yes +every 48 hours +\d`, out)
	require.Nil(x.t, member(x.json("schedule", "list", "--name", "often"), "schedules", 0))
	x.run("", "schedule", "set", "often", "--queue", "reports", "--every", "1h")
	x.table("NAME PAUSED CHANGED\noften yes yes", "schedule", "pause", "often", "--reason", "broken")
	require.Equal(x.t, "broken", member(x.json("schedule", "list", "--name", "often", "--queue", "reports", "--limit", "1"), "schedules", 0, "pauseReason"))
	x.table("NAME PAUSED CHANGED\noften no yes", "schedule", "resume", "often")
	x.table("NAME PAUSED CHANGED\noften yes yes", "schedule", "pause", "often")
	code, out, problems := x.run("", "schedule", "run", "often")
	require.Zero(x.t, code, problems)
	require.Regexp(x.t, `(?m)^often +reports +often@.*/run$`, out)
	for args, want := range map[string]string{
		"set x --every 1h": "--queue is missing", "set x --queue q --every 1h --payload a": "--payload is not JSON", "set x --queue q --every soon": "--every is", "set x --queue q --every 1h --header a": "write NAME=VALUE",
	} {
		code, _, problems = x.run("", append([]string{"schedule"}, strings.Fields(args)...)...)
		require.Equal(x.t, 2, code, args)
		require.Contains(x.t, problems, want, args)
	}
	code, _, problems = x.run("", "schedule", "set", "x", "--queue", "q", "--cron", "61 * * * *")
	require.Equal(x.t, 1, code)
	require.Contains(x.t, problems, "cron")
	for _, verb := range []string{"run", "pause", "resume", "delete", "show", "next"} {
		args := []string{"schedule", verb, "none"}
		if verb == "delete" {
			args = append(args, "--yes")
		}
		code, _, _ = x.run("", args...)
		require.Equal(x.t, 1, code, verb)
	}
	scheduleFile(x)
	code, out, _ = x.run("", "schedule", "delete", "often", "--dry-run")
	require.Equal(x.t, []any{0, "would delete the schedule \"often\"\n"}, []any{code, out})
}

// scheduleFile applies and exports schedules.
func scheduleFile(x *terminal) {
	_, exported, _ := x.run("", "export")
	require.Contains(x.t, exported, "payload: {a: 1.50}")
	code, out, problems := x.run(exported, "apply", "-f", "-", "--dry-run")
	require.Equal(x.t, []any{0, "nothing to change\n"}, []any{code, out}, problems)
	wanted := `schedules:
- {name: hourly, queue: reports, every: 1h, payload: {for: "{{scheduled_at}}"}, paused: true}
- {name: often, queue: reports, every: 60m, payload: {}}
- {name: daily, queue: reports, cron: "@daily", payload: {a: 1.50}}
`
	const plan = "create schedule hourly: every hour\nchange schedule daily: cron: 0 8 * * 1-5 -> @daily, delaySeconds: 90 -> -, ends: 2030-06-05T00:00:00Z -> -, " +
		`headers: {"tenant":"acme"} -> -, missed: skip -> one, overlapGroup: g -> -, partition: p -> Default, starts: 2030-06-03T00:00:00Z -> -, zone: Europe/Rome -> UTC` + "\n"
	code, out, problems = x.run(wanted, "apply", "-f", "-", "--dry-run")
	require.Equal(x.t, []any{2, plan}, []any{code, out}, problems)
	require.Nil(x.t, member(x.json("schedule", "list", "--name", "hourly"), "schedules", 0), "a dry run changes nothing")
	code, out, problems = x.run(wanted, "apply", "-f", "-")
	require.Equal(x.t, []any{0, plan}, []any{code, out}, problems)
	code, out, problems = x.run(wanted, "apply", "-f", "-")
	require.Equal(x.t, []any{0, "nothing to change\n"}, []any{code, out}, problems, "the second apply changes nothing")
	require.Equal(x.t, true, member(x.json("schedule", "show", "often"), "paused"), "a schedule stays paused if the file does not say so")
	code, _, problems = x.run(strings.Replace(wanted, "60m", "60", 1), "apply", "-f", "-", "--dry-run")
	require.Equal(x.t, 1, code)
	require.Contains(x.t, problems, `the schedule "often"`)
	require.Contains(x.t, problems, "every must be a duration")
	queues := "queues:\n- name: lines\n- name: orders\n- name: reports\n"
	_, out, _ = x.run(queues, "apply", "-f", "-", "--prune", "--dry-run")
	require.NotContains(x.t, out, "schedule", "a file without the list of schedules deletes none")
	less := strings.Join(strings.Split(wanted, "\n")[:3], "\n")
	code, out, problems = x.run(less, "apply", "-f", "-", "--prune")
	require.Equal(x.t, []any{2, ""}, []any{code, out})
	require.Contains(x.t, problems, "Delete 1 schedules that the file does not name: daily?")
	code, out, problems = x.run(less, "apply", "-f", "-", "--prune", "--yes")
	require.Equal(x.t, []any{0, "delete schedule daily\n"}, []any{code, out}, problems)
}
