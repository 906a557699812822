package schedules_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/schedule"
	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/apitest"
)

const path = "/api/v1/schedules/daily"

// existing returns fakes with a schedule of the queue reports, whose first instant is on 1 June 2030.
func existing() *apitest.Fakes {
	headers, _ := queue.ParseHeaders("headers", []byte(`{"Tenant": "acme"}`))
	one := &schedule.Schedule{
		Definition: schedule.Definition{Name: "daily", Queue: "reports", Partition: "Default", Payload: []byte(`{"a":1}`), Headers: headers, Delay: 1500 * time.Millisecond, Missed: "one", Jitter: 90 * time.Second},
		CreatedAt:  time.Date(2026, 5, 16, 8, 41, 27, 0, time.UTC), ChangedAt: time.Date(2026, 5, 16, 8, 41, 28, 0, time.UTC), ScheduledBy: "belfry",
	}
	one.Spec.Cron, one.Spec.Zone, one.Spec.Starts, one.Spec.Ends = "0 8 * * *", "Europe/Rome", time.Date(2030, 6, 1, 0, 0, 0, 0, time.UTC), time.Date(2030, 6, 2, 12, 0, 0, 0, time.UTC)
	return &apitest.Fakes{Schedules: apitest.Schedules{Old: one}}
}

func TestTheParserReadsTheMembersOfTheType(t *testing.T) {
	t.Parallel()
	paused, at := true, time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	whole := api.SetSchedule{
		Queue: "reports", Partition: "p", Cron: "@daily", Zone: "Europe/Rome", Payload: json.RawMessage(`{}`), Headers: map[string]string{"a": "b"}, DelaySeconds: 1.5,
		Starts: at, Ends: at.Add(time.Hour), Jitter: "30s", Missed: "all", OverlapGroup: "g", Paused: &paused,
	}
	apitest.RequireReads(t, func(body []byte) any {
		f := &apitest.Fakes{}
		answer := apitest.Call(f, http.MethodPut, path, string(body))
		return []any{answer.Body.String(), f.Schedules.Set}
	}, whole, api.SetSchedule{Queue: "reports", Payload: json.RawMessage(`1`), Every: "1h"}, api.SetSchedule{Queue: "reports", Payload: json.RawMessage(`1`), At: at})
}

func TestSetAnswersWithTheSchedule(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{}
	body := `{"queue":"reports","cron":"0 8 * * 1-5","zone":"Europe/Rome","payload":{"b": 1},"starts":"2030-06-01T00:00:00.0009+02:00","jitter":"1h0m0s","zone":null,"missed":null}`
	got := apitest.Call(f, http.MethodPut, "/api/v1/schedules/a%2Fb?dryRun=true", body)
	require.Equal(t, http.StatusOK, got.Code, got.Body)
	var answer api.ScheduleSet
	require.NoError(t, json.Unmarshal(got.Body.Bytes(), &answer))
	require.Equal(t, []any{true, true, "a/b", "every weekday at 08:00, Europe/Rome", "1h", 10}, []any{
		answer.Created, answer.DryRun, answer.Schedule.Name, answer.Schedule.Sentence, answer.Schedule.Jitter, len(answer.Schedule.Next)})
	require.Equal(t, "2030-06-03T06:00:00Z", answer.Schedule.Next[0].Format(time.RFC3339))
	require.True(t, f.Schedules.DryRun)
	require.JSONEq(t, `{"b": 1}`, string(f.Schedules.Set.Payload))
	require.Equal(t, time.Date(2030, 5, 31, 22, 0, 0, 0, time.UTC), f.Schedules.Set.Spec.Starts.UTC(), "answers have milliseconds, so the rest is dropped")
	require.Equal(t, http.StatusOK, apitest.Call(f, http.MethodPut, path, body).Code)
	require.False(t, f.Schedules.DryRun)
}

// The answer to a GET has the members of the body of a PUT, so that it can be sent again.
func TestTheMembersOfAnAnswerAreABody(t *testing.T) {
	t.Parallel()
	f := existing()
	got := apitest.Call(f, http.MethodGet, path, "")
	require.JSONEq(t, `{"name":"daily","queue":"reports","partition":"Default","cron":"0 8 * * *","zone":"Europe/Rome","payload":{"a":1},"headers":{"tenant":"acme"},"delaySeconds":1.5,
		"starts":"2030-06-01T00:00:00.000Z","ends":"2030-06-02T12:00:00.000Z","jitter":"1m30s","missed":"one","paused":false,"sentence":"every day at 08:00, Europe/Rome","pauseReason":null,"nextAt":null,
		"next":["2030-06-01T06:00:00.000Z","2030-06-02T06:00:00.000Z"],"lastAt":null,"lastTransactionId":null,"error":null,"scheduledBy":"belfry",
		"createdAt":"2026-05-16T08:41:27.000Z","changedAt":"2026-05-16T08:41:28.000Z"}`, got.Body.String())
	var shown api.Schedule
	require.NoError(t, json.Unmarshal(got.Body.Bytes(), &shown))
	body, err := json.Marshal(shown.SetSchedule)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, apitest.Call(f, http.MethodPut, path, string(body)).Code)
	set, old := f.Schedules.Set, f.Schedules.Old.Definition
	require.False(t, *set.Pause)
	set.Pause = nil
	require.Equal(t, old, set)

	f.Schedules.Old.Spec.Cron, f.Schedules.Old.Error = "61 * * * *", "bad"
	got = apitest.Call(f, http.MethodGet, path, "")
	require.Contains(t, got.Body.String(), `"sentence":"cron 61 * * * *, Europe/Rome"`)
	require.Contains(t, got.Body.String(), `"next":[]`, "a schedule with an error has no instants")
}

func TestABadBodyNamesItsMember(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"payload":1,"every":"1s"}`:                               "queue is required",
		`{"queue":"","payload":1,"every":"1s"}`:                    "queue is required",
		`{"queue":1,"payload":1,"every":"1s"}`:                     "queue must be a string",
		`{"queue":"q","every":"1s"}`:                               "payload is required",
		`{"queue":"q","payload":1,"every":"1"}`:                    `every must be a duration such as "10s"`,
		`{"queue":"q","payload":1,"every":60}`:                     `every must be a duration such as "10s"`,
		`{"queue":"q","payload":1,"every":"0s"}`:                   "every must be a duration",
		`{"queue":"q","payload":1,"every":"1s","jitter":"-1s"}`:    "jitter must be a duration",
		`{"queue":"q","payload":1,"at":"tomorrow"}`:                "at must be an instant as in RFC 3339",
		`{"queue":"q","payload":1,"at":"2030-01-01T08:00:00"}`:     "at must be an instant as in RFC 3339",
		`{"queue":"q","payload":1,"every":"1s","delaySeconds":-1}`: "delaySeconds must be a number",
		`{"queue":"q","payload":1,"every":"1s","headers":{"a":1}}`: "headers.a must be a text",
		`{"queue":"q","payload":1,"every":"1s","paused":"yes"}`:    "paused must be true or false",
		`{"queue":"q","payload":1,"evry":"1s"}`:                    `the member "evry" is not known: use queue, partition, cron, every`,
		`{"queue":"q","payload":1,"zone":"a\u0000"}`:               "zone must be a string without NUL",
		`{"queue":"` + strings.Repeat("q", 256) + `","payload":1}`: "queue is 256 bytes long",
	} {
		f := &apitest.Fakes{}
		require.Contains(t, apitest.RequireError(t, apitest.Call(f, http.MethodPut, path, body), http.StatusBadRequest), want, body)
		require.False(t, f.Reached())
	}
	long := apitest.Call(&apitest.Fakes{}, http.MethodGet, "/api/v1/schedules/"+strings.Repeat("n", 201), "")
	require.Contains(t, apitest.RequireError(t, long, http.StatusBadRequest), "the name in the path has 201 bytes")
	require.Contains(t, apitest.RequireError(t, apitest.Call(existing(), http.MethodPost, path+"/pause", `{"reason":1}`), http.StatusBadRequest), "reason must be a string")
	require.Contains(t, apitest.RequireError(t, apitest.Call(existing(), http.MethodPost, path+"/pause", `{"reason":"`+strings.Repeat("r", 1001)+`"}`), http.StatusBadRequest), "reason has 1001 characters")
}

func TestListsHaveFiltersAndACursor(t *testing.T) {
	t.Parallel()
	f := existing()
	f.Schedules.After = "daily"
	got := apitest.Call(f, http.MethodGet, "/api/v1/schedules?queue=reports&name=AIL&limit=5000&cursor=b", "")
	require.Equal(t, schedule.Filter{Queue: "reports", Part: "AIL", After: "b", Limit: 1000}, f.Schedules.Filter)
	var page api.SchedulePage
	require.NoError(t, json.Unmarshal(got.Body.Bytes(), &page))
	require.Equal(t, "daily", *page.Pagination.Next)
	require.Nil(t, page.Schedules[0].Next)
	require.Equal(t, "every day at 08:00, Europe/Rome", page.Schedules[0].Sentence)
	f.Schedules.Old, f.Schedules.After = nil, ""
	require.JSONEq(t, `{"schedules":[],"pagination":{"limit":100,"next":null}}`, apitest.Call(f, http.MethodGet, "/api/v1/schedules", "").Body.String())
}

// The answers to GET have the last message, and say whether the overlap group has finished it.
func TestAnswersHaveTheLastMessage(t *testing.T) {
	t.Parallel()
	f := existing()
	f.Schedules.Old.LastTransactionID, f.Schedules.Old.OverlapGroup = "daily@1", "g"
	want := &api.ScheduleMessage{PartitionID: apitest.IDOne.String(), TransactionID: "daily@1", Status: "pending", Unfinished: true}
	var one api.Schedule
	require.NoError(t, json.Unmarshal(apitest.Call(f, http.MethodGet, path, "").Body.Bytes(), &one))
	require.Equal(t, want, one.LastMessage)
	var page api.SchedulePage
	require.NoError(t, json.Unmarshal(apitest.Call(f, http.MethodGet, "/api/v1/schedules", "").Body.Bytes(), &page))
	require.Equal(t, want, page.Schedules[0].LastMessage)
}

func TestInstantsAndActions(t *testing.T) {
	t.Parallel()
	f := existing()
	require.JSONEq(t, `{"name":"daily","sentence":"every day at 08:00, Europe/Rome","zone":"Europe/Rome","next":["2030-06-01T06:00:00.000Z"]}`,
		apitest.Call(f, http.MethodGet, path+"/next?n=1", "").Body.String())
	require.JSONEq(t, `{"success":true,"name":"daily","queue":"reports","transactionId":"daily@now/run"}`, apitest.Call(f, http.MethodPost, path+"/run", "").Body.String())
	require.JSONEq(t, `{"success":true,"name":"daily","paused":true,"changed":true}`, apitest.Call(f, http.MethodPost, path+"/pause", `{"reason":"broken"}`).Body.String())
	require.Equal(t, "broken", f.Schedules.Reason)
	require.JSONEq(t, `{"success":true,"name":"daily","paused":false,"changed":true}`, apitest.Call(f, http.MethodPost, path+"/resume", "").Body.String())
	require.JSONEq(t, `{"deleted":true,"name":"daily"}`, apitest.Call(f, http.MethodDelete, path, "").Body.String())
	for _, request := range []string{"GET ", "GET /next", "POST /run", "POST /pause", "POST /resume", "DELETE "} {
		method, rest, _ := strings.Cut(request, " ")
		require.Equal(t, "Schedule not found", apitest.RequireError(t, apitest.Call(&apitest.Fakes{}, method, path+rest, ""), http.StatusNotFound), request)
	}
}

// A change needs the right to administer the queue. A schedule of a queue that the caller may not read does not
// exist.
func TestRightsOnTheQueue(t *testing.T) {
	t.Parallel()
	const body = `{"queue":"reports","every":"1h","payload":1}`
	calls := map[string]string{"PUT ": body, "DELETE ": "", "POST /run": "", "POST /pause": "", "POST /resume": "", "GET ": "", "GET /next": ""}
	for name, c := range map[string]struct {
		grants *identity.Grants
		read   int
		change int
	}{
		"all":              {nil, 200, 200},
		"admin":            {&identity.Grants{Admin: []string{"reports"}}, 200, 200},
		"only push":        {&identity.Grants{Read: []string{"reports"}, Push: []string{"reports"}}, 200, 403},
		"of another queue": {&identity.Grants{Admin: []string{"x"}}, 404, 404},
	} {
		for request, body := range calls {
			method, rest, _ := strings.Cut(request, " ")
			want := c.change
			switch {
			case method == http.MethodGet:
				want = c.read
			case method == http.MethodPut && want == 404:
				want = 403
			}
			require.Equal(t, want, as(existing(), c.grants, method, path+rest, body).Code, "%s: %s", name, request)
		}
	}
	other := &identity.Grants{Admin: []string{"x"}}
	taken := as(existing(), other, http.MethodPut, path, strings.Replace(body, "reports", "x", 1))
	require.Contains(t, apitest.RequireError(t, taken, http.StatusForbidden), "another queue has a schedule of this name")
	require.Equal(t, http.StatusOK, as(&apitest.Fakes{}, other, http.MethodPut, path, strings.Replace(body, "reports", "x", 1)).Code)
	f := existing()
	as(f, other, http.MethodGet, "/api/v1/schedules", "")
	require.Equal(t, []string{"x"}, f.Schedules.Filter.Allowed)
	require.Equal(t, http.StatusForbidden, as(f, other, http.MethodGet, "/api/v1/schedules?queue=reports", "").Code)
	require.Equal(t, http.StatusForbidden, as(f, nil, http.MethodPost, path+"/run", "", identity.ReadOnly).Code, "a change needs the role read-write")
}

// as sends a request of a token with grants.
func as(f *apitest.Fakes, grants *identity.Grants, method, target, body string, role ...identity.Role) *httptest.ResponseRecorder {
	who := &identity.Principal{Subject: "anna", Role: append(role, identity.Admin)[0], Grants: grants}
	s, _ := apitest.Server(f, func(_ *httpapi.Config, deps *httpapi.Deps) { deps.Auth = signedIn{who} })
	return apitest.Send(s, apitest.Request(method, target, body))
}

// signedIn accepts each request.
type signedIn struct{ who *identity.Principal }

func (a signedIn) Verify(context.Context, string) (*identity.Principal, error) { return a.who, nil }
func (signedIn) NextRevocation() <-chan struct{}                               { return nil }
func (signedIn) Skips(string) bool                                             { return false }
