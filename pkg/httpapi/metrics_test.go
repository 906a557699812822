package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/httpapi/openapi"
	"github.com/belfry-mq/belfry/pkg/httpapi/queen"
	"github.com/belfry-mq/belfry/pkg/insight/history"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/pkg/insight/totals"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/apitest"
)

func TestMetricsCountServedRequests(t *testing.T) {
	s, _ := apitest.Server(&apitest.Fakes{Pop: apitest.Deliver(apitest.OneMessage())})
	apitest.SendOK(t, s, apitest.Request("GET", "/api/v1/pop/queue/orders", ""))
	rec := apitest.SendOK(t, s, apitest.Request("GET", "/metrics/prometheus", ""))
	require.Contains(t, rec.Body.String(), "belfry_pop_messages_total 1\n")
	require.Contains(t, rec.Body.String(), `belfry_http_request_duration_seconds_count{route="/api/v1/pop/queue/:queue",status="200"} 1`)
}

// The queues with the most pending messages have metrics of their own. The other queues are summed. Only a sender that may see all
// queues gets these metrics.
func TestMetricsOfQueues(t *testing.T) {
	at := time.Now()
	group := func(queueName, name string, lag int64, age time.Duration) totals.Group {
		return totals.Group{Queue: queueName, Name: name, GroupSums: totals.GroupSums{Lag: lag, Oldest: at.Add(-age)}}
	}
	f := &apitest.Fakes{Totals: totals.Snapshot{At: at, Queues: []totals.Queue{
		{Name: "a", QueueSums: totals.QueueSums{Partitions: 1, Messages: totals.Counts{Total: 5, Pending: 1}}},
		{Name: "b", DeadLetters: 1, QueueSums: totals.QueueSums{Partitions: 2, Messages: totals.Counts{Total: 9, Pending: 7}}},
		{Name: "c", QueueSums: totals.QueueSums{Partitions: 3, Messages: totals.Counts{Total: 6}}},
	}, Groups: []totals.Group{group("a", "g", 2, time.Second), group("b", "g", 7, time.Minute), group("c", "h", 3, time.Hour)}}}
	limited := func(limit int) func(*httpapi.Config, *httpapi.Deps) {
		return func(_ *httpapi.Config, deps *httpapi.Deps) { deps.MaxQueueMetrics = limit }
	}
	scrape := func(token string, edits ...func(*httpapi.Config, *httpapi.Deps)) string {
		s, _ := apitest.Server(f, edits...)
		request := apitest.Request("GET", "/metrics/prometheus", "")
		request.Header.Set("Authorization", token)
		return apitest.SendOK(t, s, request).Body.String()
	}
	text := scrape("", limited(1))
	for _, line := range []string{
		`belfry_queue_messages{queue="b"} 9`, `belfry_queue_pending_messages{queue="b"} 7`, `belfry_queue_dead_letters{queue="b"} 1`, `belfry_queue_partitions{queue="b"} 2`,
		`belfry_group_lag_messages{group="g",queue="b"} 7`, `belfry_group_lag_seconds{group="g",queue="b"} 60`, `belfry_queue_messages{queue="(other)"} 11`,
		`belfry_queue_partitions{queue="(other)"} 4`, `belfry_group_lag_messages{group="(other)",queue="(other)"} 5`, `belfry_group_lag_seconds{group="(other)",queue="(other)"} 3600`,
	} {
		require.Contains(t, text, line+"\n")
	}
	require.NotContains(t, text, `queue="a"`)
	require.NotContains(t, scrape("", limited(3)), "(other)")
	for token, shown := range map[string]bool{"": false, "foreign": false, "none": false, "read-only": true, "admin": true} {
		require.Equal(t, shown, strings.Contains(scrape(token, limited(3), withTokens), `queue="b"`), token)
	}
	tenant := func(_ *httpapi.Config, deps *httpapi.Deps) {
		deps.Auth = oneToken{&identity.Principal{Role: identity.Admin, Grants: &identity.Grants{Read: []string{"*"}}}}
	}
	require.NotContains(t, scrape("tenant", limited(3), tenant), `queue="`)
	f.Resources.FailWith = errors.New("away")
	require.NotContains(t, scrape("", limited(3)), `queue="`, "the other metrics are served")
}

// A queue may have any number of groups, but only 10*metrics.max_queues groups have metrics of their own: the groups with the
// most lag. The other groups of each queue are summed. A group with the name of the sum is a part of the sum.
func TestMetricsOfGroupsAreLimited(t *testing.T) {
	at := time.Now()
	pending := func(name string, total, pending int64) totals.Queue {
		return totals.Queue{Name: name, QueueSums: totals.QueueSums{Messages: totals.Counts{Total: total, Pending: pending}}}
	}
	lag := func(queueName, name string, lag int64, age time.Duration) totals.Group {
		return totals.Group{Queue: queueName, Name: name, GroupSums: totals.GroupSums{Lag: lag, Oldest: at.Add(-age)}}
	}
	f := &apitest.Fakes{Totals: totals.Snapshot{
		At: at, Queues: []totals.Queue{pending("(other)", 3, 3), pending("a", 2, 2), pending("b", 1, 1)},
		Groups: []totals.Group{lag("b", "slow", 1000, 0), lag("a", "(other)", 5000, 0), lag("(other)", "g", 4, 0)},
	}}
	for i := range 900 {
		f.Totals.Groups = append(f.Totals.Groups, lag("a", fmt.Sprint(i), int64(i), time.Duration(i)*time.Second))
	}
	s, _ := apitest.Server(f, func(_ *httpapi.Config, deps *httpapi.Deps) { deps.MaxQueueMetrics = 3 })
	text := apitest.SendOK(t, s, apitest.Request("GET", "/metrics/prometheus", "")).Body.String()
	require.Equal(t, 10*3+2, strings.Count(text, "\nbelfry_group_lag_messages{"))
	sum := 5000
	for i := range 900 - 29 {
		sum += i
	}
	for _, line := range []string{
		`belfry_group_lag_messages{group="slow",queue="b"} 1000`, `belfry_group_lag_messages{group="871",queue="a"} 871`,
		fmt.Sprintf(`belfry_group_lag_messages{group="(other)",queue="a"} %d`, sum), `belfry_group_lag_seconds{group="(other)",queue="a"} 870`,
		`belfry_group_lag_messages{group="(other)",queue="(other)"} 4`, `belfry_queue_messages{queue="(other)"} 3`,
	} {
		require.Contains(t, text, line+"\n")
	}
}

// oneToken is an Authenticator with one principal.
type oneToken struct{ *identity.Principal }

func (oneToken) NextRevocation() <-chan struct{} { return nil }

func (o oneToken) Verify(context.Context, string) (*identity.Principal, error) {
	return o.Principal, nil
}

func (oneToken) Skips(string) bool { return false }

// GET /metrics counts requests and messages, and a request that failed because of the database is counted.
func TestJSONMetricsCountRequestsAndMessages(t *testing.T) {
	counts := history.NewRecorder(10)
	f := apitest.Failing(&queue.Error{Code: queue.CodeUnavailable, Err: errors.New("the database is away")})
	f.Metrics = httpapi.NewMetrics(prometheus.NewRegistry(), counts)
	s, _ := apitest.Server(f)
	f.Metrics.Pushed(make([]queue.PushItem, 30), make([]queue.PushResult, 30))
	for range 3 {
		require.Equal(t, http.StatusServiceUnavailable, apitest.Send(s, apitest.Request("POST", "/api/v1/push", apitest.OnePush)).Code)
	}
	require.EqualValues(t, 3, counts.DatabaseErrors())
	var body struct {
		Uptime   float64
		Requests struct{ Total, Rate float64 }
		Messages struct{ Total, Rate float64 }
		Memory   struct{ Rss, HeapUsed float64 }
		CPU      struct{ User float64 }
	}
	require.NoError(t, json.Unmarshal(apitest.SendOK(t, s, apitest.Request("GET", "/metrics", "")).Body.Bytes(), &body))
	require.Positive(t, body.Uptime)
	require.InDelta(t, 3, body.Requests.Total, 0)
	require.InDelta(t, .05, body.Requests.Rate, 0)
	require.InDelta(t, 30, body.Messages.Total, 0)
	require.InDelta(t, .5, body.Messages.Rate, 0)
	require.Greater(t, body.Memory.Rss, body.Memory.HeapUsed)
	require.Positive(t, body.CPU.User)
}

// slowOverview simulates a large database: each overview blocks until the test lets it finish.
type slowOverview struct {
	queen.Resources
	inside, finish chan struct{}
}

func (r slowOverview) Overview(context.Context, []string) (stats.Overview, error) {
	r.inside <- struct{}{}
	<-r.finish
	return stats.Overview{}, nil
}

func TestAtMostTwoStatisticsReadTheDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := slowOverview{inside: make(chan struct{}, 10), finish: make(chan struct{})}
		scrapes := prometheus.NewRegistry()
		f := &apitest.Fakes{Metrics: apitest.NewMetrics(scrapes)}
		s, _ := apitest.Server(f, func(_ *httpapi.Config, deps *httpapi.Deps) {
			slow.Resources = deps.Resources
			deps.Resources = slow
		})
		statuses := make(chan int, 10)
		ask := func(ctx context.Context, path string) {
			go func() { statuses <- apitest.Send(s, apitest.Request("GET", path, "").WithContext(ctx)).Code }()
			synctest.Wait()
		}
		for range 3 {
			ask(t.Context(), "/api/v1/resources/overview")
		}
		require.Len(t, slow.inside, 2, "the third request waits")
		for _, path := range []string{"/metrics/prometheus", "/api/v1/consumer-groups", "/api/v1/status/queues", "/api/v1/status/dispatcher"} {
			ask(t.Context(), path)
		}
		left, leave := context.WithCancel(t.Context())
		ask(left, "/api/v1/resources/queues")
		require.Empty(t, statuses)
		leave()
		synctest.Wait()
		require.Len(t, statuses, 1, "the client disconnected")
		<-statuses

		require.Equal(t, http.StatusNoContent, apitest.Send(s, apitest.Request("GET", popPath, "")).Code, "other requests do not wait")

		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.Len(t, statuses, 5, "the wait is limited")
		for range 5 {
			require.Equal(t, http.StatusServiceUnavailable, <-statuses)
		}
		refused := make(chan *http.Response, 1)
		go func() { refused <- apitest.Send(s, apitest.Request("GET", "/metrics/prometheus", "")).Result() }()
		time.Sleep(5 * time.Second)
		require.Equal(t, "1", (<-refused).Header.Get("Retry-After"))

		close(slow.finish)
		synctest.Wait()
		for range 2 {
			require.Equal(t, http.StatusOK, <-statuses)
		}
		ask(t.Context(), "/metrics/prometheus")
		require.Equal(t, http.StatusOK, <-statuses, "a finished request lets another request read")
	})
}

// documented has the members of the OpenAPI document that the test below reads.
type documented struct {
	Paths map[string]map[string]struct {
		Parameters []documentedParameter
	}
	Components struct {
		Parameters map[string]documentedParameter
	}
}

type documentedParameter struct {
	Ref      string `json:"$ref"`
	In, Name string
	Schema   struct {
		Ref string `json:"$ref"`
	}
}

// Each instant in a query may have a zone whose plus the client did not escape. The server receives it as a space.
func TestEveryInstantOfAQueryMayHaveAZone(t *testing.T) {
	var document documented
	require.NoError(t, json.Unmarshal(openapi.Document, &document))
	instants := map[string]bool{"from": true, "to": true, "timestamp": true, "subscriptionFrom": true}
	found := 0
	for path, methods := range document.Paths {
		for method, operation := range methods {
			for _, p := range operation.Parameters {
				if p.Ref != "" {
					p = document.Components.Parameters[strings.TrimPrefix(p.Ref, "#/components/parameters/")]
				}
				if p.In != "query" || !instants[p.Name] || p.Schema.Ref != "" { // a name
					continue
				}
				found++
				filter := "queue=q&"
				if path == "/api/v1/pop" {
					filter = "namespace=n&"
				}
				target := pathOf(regexp.MustCompile(`\{(\w+)\}`).ReplaceAllString(path, ":$1")) + "?" + filter + p.Name + "="
				send := func(value string) (status int, text string) {
					s, _ := apitest.Server(&apitest.Fakes{})
					rec := apitest.Send(s, apitest.Request(strings.ToUpper(method), target+value, ""))
					return rec.Code, rec.Body.String()
				}
				status, text := send("nonsense")
				require.Equal(t, http.StatusBadRequest, status, "%s %s", method, target)
				require.Contains(t, text, p.Name)
				status, text = send(time.Now().UTC().Add(time.Hour).Format("2006-01-02T15:04:05.000000") + "+02:00") // an hour ago
				require.Less(t, status, http.StatusBadRequest, "%s %s: %s", method, target, text)
			}
		}
	}
	require.Greater(t, found, 30)
}
