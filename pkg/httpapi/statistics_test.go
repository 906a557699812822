package httpapi_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/httpapi/queen"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/test/apitest"
)

// slowOverview is a large database: each overview blocks until it is allowed to finish.
type slowOverview struct {
	queen.Resources
	inside, finish chan struct{}
}

func (r slowOverview) Overview(context.Context, []string) (stats.Overview, error) {
	r.inside <- struct{}{}
	<-r.finish
	return stats.Overview{}, nil
}

func TestTwoStatisticsReadTheDatabaseAtATime(t *testing.T) {
	t.Parallel()
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
		require.Len(t, slow.inside, 2, "the third waits")
		for _, path := range []string{"/metrics/prometheus", "/api/v1/consumer-groups", "/api/v1/status/queues", "/api/v1/status/dispatcher"} {
			ask(t.Context(), path)
		}
		left, leave := context.WithCancel(t.Context())
		ask(left, "/api/v1/resources/queues")
		require.Empty(t, statuses)
		leave()
		synctest.Wait()
		require.Len(t, statuses, 1, "the client left")
		<-statuses

		require.Equal(t, http.StatusNoContent, apitest.Send(s, apitest.Request("GET", popPath, "")).Code, "other requests do not wait")

		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.Len(t, statuses, 5, "the wait is bounded")
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
		require.Equal(t, http.StatusOK, <-statuses, "each request gives its place back")
	})
}
