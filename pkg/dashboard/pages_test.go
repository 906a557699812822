package dashboard_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
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

// recording remembers what it was asked for.
type recording struct {
	answers
	mu    sync.Mutex
	asked string
}

func (a *recording) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.asked += r.URL.String() + "\n"
	a.mu.Unlock()
	a.answers.ServeHTTP(w, r)
}

// large is a database at the sizes that the dashboard is made for: 10,000 queues with 3 groups each, and one
// with 100,000 partitions, of which the API answers as many as a page asks for.
func large() answers {
	queues, groups, problems, tags := make([]any, 0, 50), make([]any, 0, 30_000), make([]any, 0, 100), make([]any, 0, 1000)
	for i := range 10_000 {
		name := fmt.Sprintf("namespace-%02d.task.queue-with-a-long-name-%05d", i%50, i)
		if i < 50 {
			queues = append(queues, map[string]any{
				"name": name, "namespace": fmt.Sprint("namespace-", i%50), "task": "task", "createdAt": time.Now(), "paused": i%3 == 0, "partitions": 100,
				"messages": map[string]any{"total": 1_000_000, "pending": i, "processing": 7}, "deadLetters": 12_500 * (i % 5), "oldestSeconds": i,
			})
		}
		if i < 100 {
			problems = append(problems, map[string]any{"kind": "stuck_head", "queue": name, "consumerGroup": strings.Repeat("g", 255), "partition": strings.Repeat("ü", 127), "messages": i})
		}
		if i < 1000 {
			tags = append(tags, map[string]any{"namespace": fmt.Sprintf("%s-%04d", strings.Repeat("n", 100), i), "task": "t"})
		}
		for j := range 3 {
			groups = append(groups, map[string]any{"name": fmt.Sprint("group-", j), "queueName": name, "totalLag": i, "maxTimeLag": i, "members": 100_000})
		}
	}
	partitions, places, figures, listed := make([]any, 0, 500), make([]any, 0, 100), make([]any, 0, 50), make([]any, 0, 50)
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
			listed = append(listed, map[string]any{"name": fmt.Sprintf("%03d-%s", i, strings.Repeat("ü", 120)), "queueName": strings.Repeat("ö", 127), "lag": i})
		}
	}
	next := map[string]any{"next": "customer-000499"}
	list := func(n int) any { return map[string]any{"partitions": places[:n], "pagination": next} }
	dead := make([]any, 0, 50)
	for range 50 {
		dead = append(dead, map[string]any{"transactionId": "t", "queue": "q", "partition": "p", "consumerGroup": "g", "errorMessage": strings.Repeat("error ", 300), "failedAt": time.Now()})
	}
	counts, attached, rejected := make([]any, 0, 50), make([]any, 0, 25), make([]any, 0, 25)
	for i := range 50 {
		name := fmt.Sprintf("customer-%06d-%s", i, strings.Repeat("ü", 120))
		counts = append(counts, map[string]any{"queue": "q", "consumerGroup": "g", "partition": name, "errorMessage": strings.Repeat("ü", 200), "count": i, "newest": time.Now()})
		if i >= 25 {
			continue
		}
		attached = append(attached, map[string]any{"table": name, "queue": name, "events": []string{"insert", "update", "delete"}, "condition": strings.Repeat("x", 200), "lastFailure": strings.Repeat("x", 200), "failures": 100})
		rejected = append(rejected, map[string]any{"id": "9007199254740993", "queue": name, "partition": name, "transactionId": name, "reason": strings.Repeat("x", 200), "excerpt": strings.Repeat("ü", 1000)})
	}
	first := "namespace-00.task.queue-with-a-long-name-00000"
	return answers{
		"/api/v1/queues": map[string]any{"queues": queues, "pagination": map[string]any{"next": "the last name"}}, "/api/v1/consumer-groups": groups,
		"/api/v1/problems": map[string]any{"problems": problems, "found": 700, "examined": 500, "pagination": map[string]any{"next": "groups_777"}},
		"/api/v1/tags":     map[string]any{"tags": tags},
		"/api/v1/groups":   map[string]any{"groups": listed, "pagination": map[string]any{"next": "9_5_ordersbilling"}},
		"/api/v1/totals":   map[string]any{"queues": 10_000, "messages": map[string]any{"total": 1_000_000_000, "pending": 50_000_000}, "deadLetters": 50_000},
		"/api/v1/status/queues/" + first: map[string]any{
			"queue": map[string]any{"name": first, "options": map[string]any{"leaseTime": 60}}, "pagination": map[string]any{},
		},
		"/api/v1/resources/queues/" + first + "/groups":     map[string]any{"groups": figures, "pagination": next},
		"/api/v1/resources/queues/" + first + "/partitions": map[string]any{"partitions": partitions, "pagination": next},
		"/api/v1/consumer-groups/group-0/queues/" + first: map[string]any{
			"group": figures[0], "places": map[string]any{"due": list(25), "leased": list(25), "resting": list(25)},
		},
		"/api/v1/consumer-groups/group-0/queues/" + first + "/partitions": list(100),
		"/api/v1/dlq/summary": map[string]any{
			"examined": 10_000, "matched": 10_000, "next": "y", "errors": counts, "partitions": counts, "messages": dead, "pagination": map[string]any{"next": "x"},
		},
		"/api/v1/attachments":    map[string]any{"attachments": attached, "pagination": map[string]any{"next": "x"}},
		"/api/v1/inbox/rejected": map[string]any{"rows": rejected, "examined": 10_000, "pagination": map[string]any{"next": "x"}},
	}
}

func startOn(t *testing.T, api http.Handler) setup {
	t.Helper()
	return startAs(t, api, nil)
}

func startAs(t *testing.T, api http.Handler, auth dashboard.Authenticator) setup {
	t.Helper()
	s := setup{changes: &source.Changes{}}
	var err error
	s.Dashboard, err = dashboard.New(dashboard.DefaultConfig(), dashboard.Deps{API: api, Auth: auth, Changes: s.changes, Log: zaptest.NewLogger(t)})
	require.NoError(t, err)
	return s
}

// Every page of a large database has less than 300,000 bytes.
func TestPagesOfALargeDatabaseAreSmall(t *testing.T) {
	t.Parallel()
	s, first := startOn(t, large()), "namespace-00.task.queue-with-a-long-name-00000"
	for _, path := range []string{
		"/ui/", "/ui/?show=more", "/ui/queues", "/ui/queues?after=x", "/ui/groups", "/ui/dead", "/ui/dead?q=q&g=g", "/ui/producers", "/ui/queue?q=" + first, "/ui/queue?order=name&by=depth&q=" + first,
		"/ui/group?g=group-0&q=" + first, "/ui/group?list=name&g=group-0&q=" + first, "/ui/group?list=leased&g=group-0&q=" + first, "/ui/options?q=" + first,
	} {
		w := s.send(t, http.MethodGet, path, "")
		require.Equal(t, http.StatusOK, w.Code, path)
		require.Less(t, w.Body.Len(), 300_000, path)
	}
}

// The list of queues has one page at a time, and its links keep the filters and the order.
func TestTheListOfQueues(t *testing.T) {
	t.Parallel()
	api := &recording{answers: large()}
	s := startOn(t, api)
	w := s.send(t, http.MethodGet, "/ui/queues?name=LONG-NAME-000&sort=pending&c=pending&c=dead&after=x", "")
	require.Contains(t, w.Body.String(), "10\u202f000 queues in all, with 50\u202f000\u202f000 pending messages.")
	require.Contains(t, w.Body.String(), "Shown: 50 queues that match, by pending.")
	require.Equal(t, 50, strings.Count(w.Body.String(), `<th scope="row">`))
	require.Contains(t, w.Body.String(), `href="queues?after=the&#43;last&#43;name&amp;name=LONG-NAME-000&amp;sort=pending&amp;c=pending&amp;c=dead" rel="next"`)
	require.Contains(t, w.Body.String(), `href="queues?name=LONG-NAME-000&amp;sort=pending&amp;c=pending&amp;c=dead">First`)
	require.NotContains(t, w.Body.String(), "Stored</a></th>", "the column is not chosen")
	require.Contains(t, w.Body.String(), "</span>48</td>")
	require.Contains(t, w.Body.String(), ">50\u202f000</a>", "dead letters")
	require.Contains(t, w.Body.String(), `href="queues?name=LONG-NAME-000&amp;sort=dead&amp;c=pending&amp;c=dead"`)
	require.NotContains(t, w.Body.String(), "&#43;</td>", "a number is exact")
	for sort, order := range map[string]string{"dead": "deadLetters", "lag": "oldest", "failing": "failures"} {
		s.send(t, http.MethodGet, "/ui/queues?sort="+sort, "")
		require.Contains(t, api.asked, "/api/v1/queues?limit=50&sort="+order+"\n")
	}
}

// The page of groups begins with the group whose oldest message is the oldest.
func TestTheListOfGroups(t *testing.T) {
	t.Parallel()
	api := &recording{answers: answers{"/api/v1/groups": map[string]any{"groups": []any{
		map[string]any{"queueName": "orders", "name": "billing", "lag": 1234, "oldestSeconds": 400, "late": true, "deadLetters": 50_000, "leasedMessages": 7, "lastConsumedAt": time.Now()},
	}, "pagination": map[string]any{"next": "9_6_ordersbilling"}}}}
	page := startOn(t, api).send(t, http.MethodGet, "/ui/groups?name=bill", "").Body.String()
	require.Contains(t, api.asked, "/api/v1/groups?limit=50&name=bill&served=true&sort=oldest\n")
	for _, text := range []string{
		">1\u202f234<", ">50\u202f000</a>", `href="group?g=billing&amp;q=orders"`, `href="dead?g=billing&amp;q=orders"`, "</span> late</span>",
		`href="groups?after=9_6_ordersbilling&amp;name=bill" rel="next"`, `href="groups?name=bill&amp;sort=consumed"`,
	} {
		require.Contains(t, page, text)
	}
}

func TestNoQueueMatches(t *testing.T) {
	t.Parallel()
	none := answers{"/api/v1/queues": map[string]any{"queues": []any{}, "pagination": map[string]any{}}}
	w := startOn(t, none).send(t, http.MethodGet, "/ui/queues?name=%3Cscript%3E", "")
	require.Contains(t, w.Body.String(), `No queue matches. <a href="queues">Show all`)
	require.NotContains(t, w.Body.String(), "<script>")
}

// The overview first shows problems of the server, then the problems in the order of the API, then a link to continue.
func TestTheWorstProblemIsFirst(t *testing.T) {
	t.Parallel()
	s := startOn(t, answers{
		"/api/v1/problems": map[string]any{"found": 9, "examined": 500, "pagination": map[string]any{"next": "groups_9"}, "problems": []any{
			map[string]any{"kind": "held_snapshot", "session": "session 7", "urgent": true, "ageSeconds": 4000},
			map[string]any{"kind": "schedule_late", "queue": "reports", "schedule": "nightly", "ageSeconds": 61},
			map[string]any{"kind": "schedule_error", "queue": "reports", "schedule": "hourly", "error": "no such zone"},
			map[string]any{"kind": "stuck_head", "queue": "a", "consumerGroup": "g", "partition": "p", "deliveries": 3, "messages": 1},
			map[string]any{"kind": "lag", "queue": "a", "consumerGroup": "late", "messages": 20, "ageSeconds": 61},
			map[string]any{"kind": "dead_letters", "queue": "dead", "consumerGroup": "g", "messages": 50_000},
			map[string]any{"kind": "paused_queue", "queue": "paused", "messages": 2},
			map[string]any{"kind": "paused_partition", "queue": "paused", "partition": "q", "messages": 2},
		}},
		"/api/v1/status/dispatcher": map[string]any{"listener": map[string]any{"state": "deaf"}, "inbox": map[string]any{"rejected": 2}},
	})
	page := s.send(t, http.MethodGet, "/ui/", "").Body.String()
	at := -1
	for _, problem := range []string{
		"<strong><bdi>deaf", "<strong><bdi>2 rejected rows", "<strong><bdi>session 7", "<strong><bdi>nightly</bdi></strong><span class=\"text\"><bdi>The schedule is due", "<strong><bdi>hourly</bdi></strong><span class=\"text\"><bdi>The schedule stores no messages: no such zone",
		"<strong><bdi>a</bdi> · <bdi>g</bdi> · <bdi>p</bdi></strong><span class=\"text\"><bdi>The first message was delivered 3 times, and 1 message",
		"<strong><bdi>a</bdi> · <bdi>late</bdi></strong><span class=\"text\"><bdi>20 messages</bdi>, the oldest", "<strong><bdi>dead</bdi> · <bdi>g</bdi></strong><span class=\"text\"><bdi>50\u202f000 messages failed", "<strong><bdi>paused</bdi></strong>", "<strong><bdi>paused</bdi> · <bdi>q",
		"1 more was found. <a href=\"./?show=more\"", `<a href="./?after=groups_9">Examine the next ones`,
	} {
		next := strings.Index(page, problem)
		require.Greater(t, next, at, problem)
		at = next
	}
	for _, link := range []string{`href="group?g=g&amp;p=p&amp;q=a"`, `href="dead?g=g&amp;q=dead"`, `href="queue?p=q&amp;q=paused"`, `href="system"`} {
		require.Contains(t, page, link)
	}
	page = s.send(t, http.MethodGet, "/ui/?after=groups_9", "").Body.String()
	require.NotContains(t, page, "<strong><bdi>deaf", "only the first page shows problems of the server")
	require.Contains(t, page, `<a href="./">Begin again`)
}

// Commands quote names for the shell, and escape names in paths.
func TestCommandsQuoteNames(t *testing.T) {
	t.Parallel()
	name := "it's/a $queue"
	s := startOn(t, answers{"/api/v1/status/queues/" + name: map[string]any{"queue": map[string]any{"name": name}, "pagination": map[string]any{}}})
	page := s.send(t, http.MethodGet, "/ui/queue?q="+url.QueryEscape(name), "").Body.String()
	require.Contains(t, page, `belfry queue get &#39;it&#39;\&#39;&#39;s/a $queue&#39;`)
	require.Contains(t, page, `http://example.com/api/v1/status/queues/it%27s%2Fa%20$queue`)
}

// The page shows why the messages of a partition wait. If the partition is paused, the cause is empty.
func TestAWaitingPartitionShowsItsCause(t *testing.T) {
	t.Parallel()
	resting := []any{}
	for _, cause := range []any{"retry", "delay", "window", nil} {
		resting = append(resting, map[string]any{"partition": "p", "cause": cause, "readyAt": time.Now()})
	}
	s := startOn(t, answers{"/api/v1/consumer-groups/g/queues/q": map[string]any{"places": map[string]any{"resting": map[string]any{"partitions": resting}}}})
	w := s.send(t, http.MethodGet, "/ui/group?q=q&g=g", "")
	require.Equal(t, http.StatusOK, w.Code)
	for _, text := range []string{"<td>a failure: retryDelay</td>", "<td>a delay</td>", "<td>windowBuffer</td>", "<td>–</td>"} {
		require.Contains(t, w.Body.String(), text)
	}
}
