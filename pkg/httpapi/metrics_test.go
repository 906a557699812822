package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/test/apitest"
)

func TestMetricsCountServedRequests(t *testing.T) {
	t.Parallel()
	s, _ := apitest.Server(&apitest.Fakes{Pop: apitest.Deliver(apitest.OneMessage())})
	apitest.SendOK(t, s, apitest.Request("GET", "/api/v1/pop/queue/orders", ""))
	rec := apitest.SendOK(t, s, apitest.Request("GET", "/metrics/prometheus", ""))
	require.Contains(t, rec.Body.String(), "belfry_pop_messages_total 1\n")
	require.Contains(t, rec.Body.String(), `belfry_http_request_duration_seconds_count{route="/api/v1/pop/queue/:queue",status="200"} 1`)
}

// The queues with the most pending messages have metrics of their own, and the other ones are summed. Only a sender that may
// see all queues gets them.
func TestMetricsOfQueues(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{Resources: apitest.Resources{Queues: []stats.Queue{
		{Name: "a", Partitions: 1, Counts: stats.Counts{Total: 5, Pending: 1}}, {Name: "b", Partitions: 2, Counts: stats.Counts{Total: 9, Pending: 7, DeadLetter: 1}},
		{Name: "c", Partitions: 3, Counts: stats.Counts{Total: 6}},
	}}, Groups: []stats.Group{
		{Queue: "b", Name: "g", Lag: 7, Oldest: time.Minute}, {Queue: "a", Name: "g", Lag: 2, Oldest: time.Second}, {Queue: "c", Name: "h", Lag: 3, Oldest: time.Hour},
	}}
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

// A queue may have any number of groups. Ten times as many groups as queues have metrics of their own: those with the most
// lag. The other ones of each queue are summed. A name that looks like a sum breaks nothing.
func TestMetricsOfGroupsAreLimited(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{Resources: apitest.Resources{Queues: []stats.Queue{
		{Name: "a", Counts: stats.Counts{Pending: 2}}, {Name: "b", Counts: stats.Counts{Pending: 1}}, {Name: "(other)", Counts: stats.Counts{Total: 3, Pending: 3}},
	}}, Groups: []stats.Group{{Queue: "b", Name: "slow", Lag: 1000}, {Queue: "a", Name: "(other)", Lag: 5000}, {Queue: "(other)", Name: "g", Lag: 4}}}
	for i := range 900 {
		f.Groups = append(f.Groups, stats.Group{Queue: "a", Name: fmt.Sprint(i), Lag: int64(i), Oldest: time.Duration(i) * time.Second})
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
