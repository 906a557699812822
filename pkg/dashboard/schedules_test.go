package dashboard_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	answer "github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dashboard"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

// schedulesAPI has the schedule a, and refuses every dry run with the text refused, if there is one.
type schedulesAPI struct {
	one     answer.Schedule
	refused string
	method  string
	target  string
	body    map[string]any
}

func (a *schedulesAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	write := func(value any) { _ = json.NewEncoder(w).Encode(value) }
	switch {
	case r.URL.Path == "/api/v1/schedules":
		write(answer.SchedulePage{Schedules: []answer.Schedule{a.one}})
	case r.Method == http.MethodGet && r.URL.Path != "/api/v1/schedules/a":
		w.WriteHeader(http.StatusNotFound)
		write(map[string]string{"error": "Schedule not found"})
	case r.Method == http.MethodGet:
		write(a.one)
	default:
		text, _ := io.ReadAll(r.Body)
		a.method, a.target, a.body = r.Method, r.URL.RequestURI(), map[string]any{}
		_ = json.Unmarshal(text, &a.body)
		if a.refused != "" {
			w.WriteHeader(http.StatusBadRequest)
			write(map[string]string{"error": a.refused})
			return
		}
		write(answer.ScheduleSet{Success: true, Created: r.URL.Path != "/api/v1/schedules/a", Schedule: a.one})
	}
}

func newSchedulesAPI() *schedulesAPI {
	at := time.Date(2030, 6, 3, 6, 0, 0, 0, time.UTC)
	return &schedulesAPI{one: answer.Schedule{
		Name: "a", Sentence: "every day at 08:00, Europe/Rome", Next: []time.Time{at}, NextAt: &at, ChangedAt: at,
		SetSchedule: answer.SetSchedule{Queue: "q", Cron: "0 8 * * *", Zone: "Europe/Rome", Payload: json.RawMessage(`{"big": 9007199254740993}`), DelaySeconds: 1.5, Headers: map[string]string{"tenant": "acme"}},
	}}
}

// The list and the page of a schedule say its state in words.
func TestTheStateOfASchedule(t *testing.T) {
	t.Parallel()
	text, yes := func(text string) *string { return &text }, true
	before := func(d time.Duration) *time.Time {
		at := time.Now().Add(-d)
		return &at
	}
	for _, c := range []struct {
		want string
		edit func(s *answer.Schedule)
	}{
		{"✓</span> active", func(*answer.Schedule) {}},
		{"▲</span> late", func(s *answer.Schedule) { s.NextAt = before(15 * time.Second) }},
		{"✓</span> active", func(s *answer.Schedule) { s.NextAt, s.Jitter = before(15*time.Second), "1m" }},
		{"▲</span> error</span><span class=\"hint\"><bdi>no such zone", func(s *answer.Schedule) { s.Error, s.NextAt = text("no such zone"), nil }},
		{"❚❚</span> paused</span> <span class=\"hint\"><bdi>closed", func(s *answer.Schedule) { s.Paused, s.PauseReason, s.NextAt = &yes, text("closed"), nil }},
		{"●</span> waiting</span> <span class=\"hint\">for <bdi>mailer", func(s *answer.Schedule) {
			s.OverlapGroup, s.LastTransactionID, s.LastMessage = "mailer", text("a@1"), &answer.ScheduleMessage{TransactionID: "a@1", Unfinished: true}
		}},
		{"❚❚</span> no instant follows", func(s *answer.Schedule) { s.NextAt = nil }},
	} {
		api := newSchedulesAPI()
		c.edit(&api.one)
		s := startOn(t, api)
		for _, path := range []string{"schedules", "schedule?name=a"} {
			require.Contains(t, s.send(t, http.MethodGet, "/ui/"+path, "").Body.String(), c.want, path)
		}
	}
}

// A preview shows the instants in the zone of the schedule. A refusal is beside its field, and the form keeps every value.
func TestAPreviewOfASchedule(t *testing.T) {
	t.Parallel()
	api := newSchedulesAPI()
	s := startOn(t, api)
	form := url.Values{"new": {"1"}, "name": {"b"}, "queue": {"q"}, "cron": {" 0 8 * * * "}, "zone": {"Europe/Rome"}, "payload": {`{"x": "</textarea>"}`}, "headers": {"tenant: acme\r\n"}, "delay": {"90"}, "starts": {"2030-06-01"}}
	preview := func() string {
		w := s.send(t, http.MethodPost, "/ui/schedule-edit", form.Encode())
		require.Equal(t, http.StatusOK, w.Code)
		require.Contains(t, w.Body.String(), `{&#34;x&#34;: &#34;&lt;/textarea&gt;&#34;}`)
		return w.Body.String()
	}
	page := preview()
	require.Contains(t, page, "every day at 08:00, Europe/Rome")
	require.Contains(t, page, "Mon 2030-06-03 08:00:00 &#43;02:00")
	require.Equal(t, []string{http.MethodPut, "/api/v1/schedules/b?dryRun=true"}, []string{api.method, api.target})
	require.Equal(t, map[string]any{
		"queue": "q", "cron": "0 8 * * *", "zone": "Europe/Rome", "payload": map[string]any{"x": "</textarea>"}, "headers": map[string]any{"tenant": "acme"},
		"delaySeconds": 90.0, "starts": "2030-06-01T00:00:00Z",
	}, api.body)
	for reason, field := range map[string]string{
		`zone "x" is unknown: give another`: "zone", `the hour of cron is "25": give 0 to 23`: "cron", "delaySeconds is 9: give less": "delay",
		"the schedule has no instants: give one of cron, every and at": "",
	} {
		api.refused = reason
		page := preview()
		require.NotContains(t, page, `class="instants"`)
		_, after, _ := strings.Cut(page, `name="`+field+`"`)
		if field == "" {
			_, after, _ = strings.Cut(page, "The form says why.")
		}
		shown, _, _ := strings.Cut(after, "</label>")
		require.Contains(t, shown, strings.ReplaceAll(reason, `"`, "&#34;"))
	}
	form.Set("starts", "soon")
	api.method = ""
	require.Contains(t, preview(), "write a time in UTC")
	require.Empty(t, api.method)
	form.Set("starts", "")
	form.Set("name", "a")
	api.refused = ""
	require.Contains(t, preview(), "there is a schedule with the name a")
}

// An edit sends the whole schedule. It is refused if the schedule has changed since the form was shown.
func TestAnEditOfASchedule(t *testing.T) {
	t.Parallel()
	api := newSchedulesAPI()
	s := startOn(t, api)
	page := s.send(t, http.MethodGet, "/ui/schedule-edit?name=a", "").Body.String()
	for _, part := range []string{`value="0 8 * * *"`, `value="1.5s"`, "tenant: acme", "9007199254740993"} {
		require.Contains(t, page, part)
	}
	do := func(fields url.Values) string {
		api.method = ""
		fields.Set("queue", "q")
		fields.Set("payload", "1")
		return notice(t, s.send(t, http.MethodPost, "/ui/do", fields.Encode()))
	}
	edit := url.Values{"action": {"set-schedule"}, "name": {"a"}, "changed": {field(page, "changed")}, "every": {"1h"}}
	require.Equal(t, "+The schedule a is set.", do(edit))
	require.Equal(t, []string{http.MethodPut, "/api/v1/schedules/a"}, []string{api.method, api.target})
	require.Equal(t, map[string]any{"queue": "q", "payload": 1.0, "every": "1h"}, api.body)
	api.one.ChangedAt = api.one.ChangedAt.Add(time.Second)
	require.Contains(t, do(edit), "another person has changed the schedule")
	require.Contains(t, do(url.Values{"action": {"set-schedule"}, "name": {"b"}, "changed": {"x"}}), "was deleted meanwhile")
	require.Contains(t, do(url.Values{"action": {"set-schedule"}, "name": {"a"}, "new": {"1"}}), "there is a schedule with the name a")
	require.Contains(t, do(url.Values{"action": {"set-schedule"}}), "has no name")
	require.Empty(t, api.method)
}

// A person sees the actions of a schedule with the right to administer its queue, which includes the right to push to it.
func TestTheActionsOfAScheduleNeedARight(t *testing.T) {
	t.Parallel()
	granted := func(admin, push []string) *identity.Principal {
		return &identity.Principal{Subject: "ann", Role: identity.ReadWrite, Grants: &identity.Grants{Read: []string{"q"}, Admin: admin, Push: push}}
	}
	q := []string{"q"}
	all := tokens{"admin": granted(q, nil), "push": granted(nil, q), "reader": reader}
	s := startAs(t, newSchedulesAPI(), all)
	for token := range all {
		for _, path := range []string{"/ui/schedule?name=a", "/ui/schedule-edit?name=a"} {
			page := s.send(t, http.MethodGet, path, "", with(token)).Body.String()
			require.Equal(t, token == "admin", strings.Contains(page, `action="do"`), "%s: %s", token, path)
		}
	}
	d, err := dashboard.New(dashboard.Config{Enabled: true, ReadOnly: true}, dashboard.Deps{API: newSchedulesAPI(), Changes: &source.Changes{}, Log: zaptest.NewLogger(t)})
	require.NoError(t, err)
	frozen := setup{Dashboard: d}
	require.NotContains(t, frozen.send(t, http.MethodGet, "/ui/schedule?name=a", "").Body.String(), `action="do"`)
	require.Equal(t, http.StatusForbidden, frozen.send(t, http.MethodPost, "/ui/schedule-edit", "name=a").Code)
}
