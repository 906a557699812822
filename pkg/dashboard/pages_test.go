package dashboard_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"

	"github.com/belfry-mq/belfry/pkg/dashboard"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

// answers is an API with an answer for each path.
type answers map[string]any

func (a answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	value, known := a[r.URL.Path]
	switch {
	case known:
	case r.URL.Path == "/api/v1/consumer-groups":
		value = []any{}
	default:
		value = map[string]any{"pagination": map[string]any{}}
	}
	_ = json.NewEncoder(w).Encode(value)
}

// large is a database at the sizes that the dashboard is made for: 10,000 queues with 3 groups each, and one
// with 100,000 partitions, of which the API answers as many as a page asks for.
func large() answers {
	queues, groups := make([]any, 0, 10_000), make([]any, 0, 30_000)
	for i := range 10_000 {
		name := fmt.Sprintf("namespace-%02d.task.queue-with-a-long-name-%05d", i%50, i)
		queues = append(queues, map[string]any{
			"name": name, "namespace": fmt.Sprint("namespace-", i%50), "task": "task", "createdAt": time.Now(), "paused": i%3 == 0, "partitions": 100_000,
			"messages": map[string]any{"total": 1_000_000, "pending": i, "processing": 7, "deadLetter": i % 5},
		})
		for j := range 3 {
			groups = append(groups, map[string]any{"name": fmt.Sprint("group-", j), "queueName": name, "totalLag": i, "maxTimeLag": i, "members": 100_000})
		}
	}
	partitions, places, figures := make([]any, 0, 500), make([]any, 0, 100), make([]any, 0, 50)
	for i := range 500 {
		name := fmt.Sprintf("customer-%06d-%s", i, strings.Repeat("ü", 120))
		partitions = append(partitions, map[string]any{"id": "5f0c3f0e-63f5-4d2c-8a0b-6a3c6d5a1b11", "name": name, "lag": i, "oldestSeconds": i, "leased": true, "deadLetters": 20})
		if i < 100 {
			places = append(places, map[string]any{
				"partition": name, "lag": i, "oldestSeconds": i, "leaseId": "0198f9a1-02b7-7c3e-9d10-4b8e5f6a7c8d", "leaseUntil": time.Now(), "leasedAt": time.Now(),
				"holder": map[string]any{"caller": "subject " + strings.Repeat("x", 200), "userAgent": strings.Repeat("x", 100)}, "paused": true,
			})
		}
		if i < 50 {
			figures = append(figures, map[string]any{"name": fmt.Sprintf("%03d-%s", i, strings.Repeat("ü", 120)), "lag": i})
		}
	}
	next := map[string]any{"next": "customer-000499"}
	list := func(n int) any { return map[string]any{"partitions": places[:n], "pagination": next} }
	dead := make([]any, 0, 50)
	for range 50 {
		dead = append(dead, map[string]any{"transactionId": "t", "queue": "q", "partition": "p", "consumerGroup": "g", "errorMessage": strings.Repeat("error ", 300), "failedAt": time.Now()})
	}
	first := "namespace-00.task.queue-with-a-long-name-00000"
	return answers{
		"/api/v1/resources/queues": map[string]any{"queues": queues}, "/api/v1/consumer-groups": groups,
		"/api/v1/status/queues/" + first: map[string]any{
			"queue": map[string]any{"name": first, "options": map[string]any{"leaseTime": 60}}, "pagination": map[string]any{},
		},
		"/api/v1/resources/queues/" + first + "/groups":     map[string]any{"groups": figures, "pagination": next},
		"/api/v1/resources/queues/" + first + "/partitions": map[string]any{"partitions": partitions, "pagination": next},
		"/api/v1/consumer-groups/group-0/queues/" + first: map[string]any{
			"group": figures[0], "places": map[string]any{"due": list(25), "leased": list(25), "resting": list(25)},
		},
		"/api/v1/consumer-groups/group-0/queues/" + first + "/partitions": list(100),
		"/api/v1/dlq": map[string]any{"messages": dead, "total": 1_000_000, "pagination": map[string]any{"next": "x"}},
	}
}

func startOn(t *testing.T, api http.Handler) setup {
	t.Helper()
	s := setup{changes: &source.Changes{}}
	var err error
	s.Dashboard, err = dashboard.New(dashboard.DefaultConfig(), dashboard.Deps{API: api, Changes: s.changes, Log: zaptest.NewLogger(t)})
	require.NoError(t, err)
	return s
}

// Every page of a large database has less than 300 KB.
func TestPagesOfALargeDatabaseAreSmall(t *testing.T) {
	t.Parallel()
	s, first := startOn(t, large()), "namespace-00.task.queue-with-a-long-name-00000"
	for _, path := range []string{
		"/ui/", "/ui/queues", "/ui/queues?page=200&sort=pending", "/ui/queues?only=problems", "/ui/dead", "/ui/queue?q=" + first, "/ui/queue?order=name&by=depth&q=" + first,
		"/ui/group?g=group-0&q=" + first, "/ui/group?list=name&g=group-0&q=" + first, "/ui/group?list=leased&g=group-0&q=" + first, "/ui/options?q=" + first,
	} {
		w := s.send(t, http.MethodGet, path, "")
		require.Equal(t, http.StatusOK, w.Code, path)
		require.Less(t, w.Body.Len(), 300_000, path)
	}
}

// The list of queues has one page at a time, and its links keep the filters.
func TestTheListOfQueues(t *testing.T) {
	t.Parallel()
	s := startOn(t, large())
	w := s.send(t, http.MethodGet, "/ui/queues?name=LONG-NAME-000&sort=pending&c=pending&c=task&page=2", "")
	require.Contains(t, w.Body.String(), "51 to 100 of 100 queues that match, of 10\u202f000")
	require.Equal(t, 50, strings.Count(w.Body.String(), `<th scope="row">`))
	require.Contains(t, w.Body.String(), `href="queues?name=LONG-NAME-000&amp;page=1&amp;sort=pending&amp;c=pending&amp;c=task"`)
	require.NotContains(t, w.Body.String(), "Dead</a>", "the column is not chosen")
	w = s.send(t, http.MethodGet, "/ui/queues?name=%3Cscript%3E", "")
	require.Contains(t, w.Body.String(), "No queue matches")
	require.NotContains(t, w.Body.String(), "<script>")
}

// The overview shows the worst first: what is bad, then the largest.
func TestTheWorstProblemIsFirst(t *testing.T) {
	t.Parallel()
	s := startOn(t, answers{
		"/api/v1/resources/queues": map[string]any{"queues": []any{
			map[string]any{"name": "paused", "paused": true}, map[string]any{"name": "dead", "messages": map[string]any{"deadLetter": 9000}},
		}},
		"/api/v1/consumer-groups": []any{
			map[string]any{"name": "late", "queueName": "a", "maxTimeLag": 100}, map[string]any{"name": "fine", "queueName": "a", "maxTimeLag": 59},
			map[string]any{"name": "very-late", "queueName": "a", "maxTimeLag": 4000},
		},
		"/api/v1/status/dispatcher": map[string]any{"listener": map[string]any{"state": "deaf"}, "inbox": map[string]any{"rejected": 2}},
	})
	page := s.send(t, http.MethodGet, "/ui/", "").Body.String()
	at := -1
	for _, problem := range []string{"<strong>deaf", "<strong>a · very-late", "<strong>2 rejected rows", "<strong>dead", "<strong>a · late", "<strong>paused"} {
		next := strings.Index(page, problem)
		require.Greater(t, next, at, problem)
		at = next
	}
	require.NotContains(t, page, "a · fine")
}

// The preview of an edit shows what changes, and sends every other option as it is.
func TestThePreviewOfAnEdit(t *testing.T) {
	t.Parallel()
	s := startOn(t, answers{"/api/v1/status/queues/a": map[string]any{
		"queue":      map[string]any{"name": "a", "namespace": "n", "options": map[string]any{"leaseTime": 60, "retryLimit": 5, "retentionEnabled": true, "ttl": 3600}},
		"pagination": map[string]any{},
	}})
	body := func(query string) (sent map[string]any) {
		page := s.send(t, http.MethodGet, "/ui/options?q=a&preview=1&"+query, "").Body.String()
		_, after, _ := strings.Cut(page, `name="body" value="`)
		text, _, found := strings.Cut(after, `"`)
		if !found {
			return nil
		}
		require.NoError(t, json.Unmarshal([]byte(strings.ReplaceAll(text, "&#34;", `"`)), &sent))
		return sent
	}
	require.Nil(t, body("leaseTime=60"), "nothing changes")
	require.Equal(t, map[string]any{
		"queue": "a", "namespace": "n", "task": "", "options": map[string]any{"leaseTime": 90.0, "retryLimit": 5.0, "retentionEnabled": true, "ttl": 3600.0},
	}, body("leaseTime=90"))
	whole := url.Values{"whole": {"1"}, "leaseTime": {"60"}, "retryLimit": {""}, "namespace": {"m"}}
	require.Equal(t, map[string]any{
		"queue": "a", "namespace": "m", "task": "", "options": map[string]any{"leaseTime": 60.0, "retentionEnabled": false, "ttl": 3600.0},
	}, body(whole.Encode()), "an empty field is the default, and a box that is not ticked is false")
}

// Commands quote names for the shell, and escape them in paths.
func TestCommandsQuoteNames(t *testing.T) {
	t.Parallel()
	name := "it's/a $queue"
	s := startOn(t, answers{"/api/v1/status/queues/" + name: map[string]any{"queue": map[string]any{"name": name}, "pagination": map[string]any{}}})
	page := s.send(t, http.MethodGet, "/ui/queue?q="+url.QueryEscape(name), "").Body.String()
	require.Contains(t, page, `belfry queue get &#39;it&#39;\&#39;&#39;s/a $queue&#39;`)
	require.Contains(t, page, `http://example.com/api/v1/status/queues/it%27s%2Fa%20$queue`)
}
