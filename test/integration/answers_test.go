package integration_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/access/rights"
	"github.com/belfry-mq/belfry/pkg/access/token"
	"github.com/belfry-mq/belfry/pkg/dashboard"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
	"github.com/belfry-mq/belfry/pkg/engine/attach"
	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/engine/deadletter"
	"github.com/belfry-mq/belfry/pkg/engine/inbox"
	"github.com/belfry-mq/belfry/pkg/engine/limit"
	"github.com/belfry-mq/belfry/pkg/engine/schedule"
	"github.com/belfry-mq/belfry/pkg/engine/store"
	streams "github.com/belfry-mq/belfry/pkg/engine/stream"
	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/insight/explain"
	"github.com/belfry-mq/belfry/pkg/insight/history"
	"github.com/belfry-mq/belfry/pkg/insight/problem"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/pkg/insight/totals"
	"github.com/belfry-mq/belfry/pkg/insight/trace"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/process/inflight"
	"github.com/belfry-mq/belfry/test/apitest"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// These are the reasons for which a route is not tested with a large answer.
const (
	delivers    = "a claim reserves the memory: see TestAnswersBeyondTheBudget of pkg/engine/store"
	figures     = "the answer has a fixed number of figures"
	oneRow      = "the answer is about one queue, group or switch"
	stillStream = "the server writes one event at a time, and an event has a fixed number of figures"
	embedded    = "the answer is a part of the program, so the request needs no memory for it"
)

// small maps the routes that are not tested with a large answer to the reason.
var small = map[string]string{
	"GET /api/v1/messages/:partitionId/:transactionId/attempts": "at most 20 attempts of a group, with errors of at most 1,000 characters",
	"GET /livez": figures, "HEAD /livez": figures, "GET /readyz": figures, "HEAD /readyz": figures, "GET /health": figures, "HEAD /health": figures,
	"GET /metrics": figures, "GET /metrics/prometheus": "metrics must be readable even when no memory is left",
	"GET /api/v1/audit/:id/undo": "the answer has at most 22 options", "GET /api/v1/pauses": "the answer has at most 1,000 pauses", "GET /api/v1/dlq/jobs": "the answer has at most 100 jobs",
	"GET /api/v1/schedules/:name/next":                         "the answer has at most 1,000 instants",
	"GET /api/v1/consumer-groups/:group/queues/:queue/breaker": oneRow,
	"GET /api/v1/consumer-groups/:group/queues/:queue/limits":  oneRow, "GET /api/v1/resources/queues/:queue/limits": "the answer has at most 200 groups",
	"GET /openapi.json": embedded, "GET /api/v1/whoami": oneRow,
	"GET /api/v1/pop": delivers, "GET /api/v1/pop/queue/:queue": delivers, "GET /api/v1/pop/queue/:queue/partition/:partition": delivers,
	"GET /api/v1/sse/queue/:queue": delivers, "GET /api/v1/events": stillStream, "GET /ui/live": stillStream,
	"GET /api/v1/explain": "the answer has at most 20 partitions and 20 reasons", "GET /api/v1/status/dispatcher": figures, "GET /api/v1/status/sweeps": figures,
	"GET /api/v1/system/shared-state": figures, "GET /internal/api/shared-state/stats": figures, "GET /internal/api/inter-instance/stats": figures,
	"GET /api/v1/migration/status": figures, "GET /api/v1/doctor": "the doctor uses its own session, and a finding has at most 20 names",
	"GET /api/v1/system/maintenance": oneRow, "GET /api/v1/system/maintenance/pop": oneRow, "GET /api/v1/status/buffers": oneRow,
	"GET /api/v1/system/maintenance/rejected": "it reads a file: see TestRejectionsFitIntoMemory of pkg/engine/spool",
	"GET /api/v1/dlq/count":                   "the answer is one number; without a queue it is an error",
	"GET /api/v1/resources/overview":          figures, "GET /api/v1/totals": figures, "GET /api/v1/scale/:queue/:group": figures,
	"GET /api/v1/consumer-groups/:group/queues/:queue/seek": oneRow,
	"GET /api/v1/analytics/system-metrics":                  figures, "GET /api/v1/analytics/postgres-stats": figures, "GET /api/v1/analytics/retention": figures,
	"GET /api/v1/analytics/queue-parked-replicas": oneRow, "GET /api/v1/status/analytics": figures,
	"GET /": embedded, "HEAD /": embedded, "GET /ui": embedded, "HEAD /ui": embedded, "HEAD /ui/*": "the same as GET /ui/*",
}

// largeAnswers maps routes to the query, body or path that makes the answer large. Other routes get limit=1000.
var largeAnswers = map[string]string{
	"GET /api/v1/analytics/worker-metrics":                     "?",
	"GET /api/v1/consumer-groups/:group":                       "?",
	"GET /api/v1/resources/queues/:queue/search":               "?limit=1000&name=p",
	"GET /api/v1/resources/queues":                             "?",
	"GET /api/v1/status/queues/:queue":                         "?limit=1000",
	"GET /api/v1/messages":                                     "?limit=1000&queue=big",
	"POST /streams/v1/state/get":                               `{"query_id":"` + fixedID + `","partition_id":"` + fixedID + `"}`,
	"GET /ui/*":                                                "ui/dead?q=big&g=g",
	"GET /api/v1/consumer-groups/lagging":                      "?minLagSeconds=0",
	"GET /api/v1/consumer-groups/:group/queues/:queue/blocked": "api/v1/consumer-groups/stuck/queues/big/blocked?limit=1000",
}

// fixedID is the id of each row that a path or a body names.
const fixedID = "01890000-0000-7000-8000-000000000001"

// fillLarge makes each list of the API large.
var fillLarge = []string{
	`INSERT INTO belfry.queue (name, namespace, task) SELECT 'q' || n || repeat('x', 200), 'n' || n || repeat('x', 200), 't' || n || repeat('x', 200) FROM generate_series(1, 1000) n`,
	`INSERT INTO belfry.queue (name) VALUES ('big')`,
	`INSERT INTO belfry.partition (queue_id, name, last_seq, last_push_at) SELECT q.id, 'Default', 1, now() FROM belfry.queue q WHERE q.name <> 'big'`,
	`INSERT INTO belfry.partition (queue_id, name, uid, last_seq, last_push_at) SELECT q.id, 'p', '` + fixedID + `', 1000, now() FROM belfry.queue q WHERE q.name = 'big'`,
	`INSERT INTO belfry.partition (queue_id, name, last_seq, last_push_at) SELECT q.id, 'p' || n || repeat('x', 200), 1, now() FROM belfry.queue q, generate_series(1, 1000) n WHERE q.name = 'big'`,
	`INSERT INTO belfry.message (partition_id, seq, created_at, id, transaction_id, payload)
	 SELECT p.id, n, now(), gen_random_uuid(), 't' || n, to_json(repeat('x', CASE WHEN n <= 50 THEN 100000 ELSE 10 END))
	   FROM belfry.partition p, generate_series(1, 1000) n WHERE p.uid = '` + fixedID + `'`,
	`INSERT INTO belfry.message (partition_id, seq, created_at, id, transaction_id, payload)
	 SELECT p.id, 1, now() - interval '1 minute', gen_random_uuid(), 't1', '1' FROM belfry.partition p WHERE p.uid <> '` + fixedID + `'`,
	`INSERT INTO belfry.consumer_group (queue_id, name, whole_queue) SELECT q.id, 'g', true FROM belfry.queue q`,
	`INSERT INTO belfry.consumer_group (queue_id, name, whole_queue) SELECT q.id, 'g' || n || repeat('x', 200), true FROM belfry.queue q, generate_series(1, 500) n WHERE q.name = 'big'`,
	`INSERT INTO belfry.cursor (partition_id, group_id, ready_at, attempts, failures, retry_at)
	 SELECT p.id, g.id, now() + interval '1 hour', 9, 9, now() + interval '1 hour' FROM belfry.partition p JOIN belfry.consumer_group g ON g.queue_id = p.queue_id AND g.name = 'g'`,
	`INSERT INTO belfry.cursor (partition_id, group_id, ready_at) SELECT p.id, g.id, now() FROM belfry.partition p JOIN belfry.consumer_group g ON g.queue_id = p.queue_id AND g.name <> 'g' WHERE p.uid = '` + fixedID + `'`,
	`INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts, error)
	 SELECT p.id, n, g.id, 3, n || repeat('e', 5000) FROM belfry.partition p JOIN belfry.consumer_group g ON g.queue_id = p.queue_id AND g.name = 'g', generate_series(1, 50) n
	  WHERE p.uid = '` + fixedID + `'`,
	`INSERT INTO belfry.trace (id, partition_id, seq, created_at, group_name, event_type, worker, names, data)
	 SELECT gen_random_uuid(), p.id, 1, now() + n * interval '1 ms', 'g', 'info', '', '{t}', to_json(repeat('x', 100000)) FROM belfry.partition p, generate_series(1, 50) n
	  WHERE p.uid = '` + fixedID + `'`,
	`INSERT INTO belfry.trace_name (name, created_at, trace_id) SELECT 't', t.created_at, t.id FROM belfry.trace t`,
	`INSERT INTO belfry.trace_name (name, created_at, trace_id)
	 SELECT n || repeat('x', 200), t.created_at, t.id FROM (SELECT t.id, t.created_at FROM belfry.trace t LIMIT 1) t, generate_series(1, 1000) n`,
	`INSERT INTO belfry.audit (id, address, request_id, action, queue, parameters, counts, result)
	 SELECT gen_random_uuid(), '', n::text, 'configure_queue', 'big', to_json(repeat('x', 1000)), '{}', 'ok' FROM generate_series(1, 1000) n`,
	`INSERT INTO belfry.inbox_rejected (id, queue, partition, payload, inserted_at, code, reason)
	 SELECT n, 'big', 'p', to_json(repeat('x', 1000)), now(), 'invalid', repeat('r', 500) FROM generate_series(1, 1000) n`,
	`INSERT INTO belfry.stream (uid, source, name, config_hash) VALUES ('` + fixedID + `', 'big', 's', 'h')`,
	`INSERT INTO belfry.stream (uid, source, name, config_hash) SELECT gen_random_uuid(), 'big', n || repeat('x', 200), 'h' FROM generate_series(1, 1000) n`,
	`INSERT INTO belfry.stream_state (stream_id, partition_id, key, value, updated_at)
	 SELECT s.id, p.id, n::text, to_json(repeat('x', 10000)), now() FROM belfry.stream s, belfry.partition p, generate_series(1, 100) n
	  WHERE s.uid = '` + fixedID + `' AND p.uid = '` + fixedID + `'`,
	`INSERT INTO belfry.attachment (target, queue, events, key, payload, strict)
	 SELECT 'belfry.queue'::regclass, n || repeat('x', 200), '{insert}', '{}', 'row', false FROM generate_series(1, 1000) n`,
	`INSERT INTO belfry.schedule (name, queue, every_seconds, payload, scheduled_by, handled_to)
	 SELECT CASE WHEN n = 1 THEN 't' ELSE n || repeat('x', 100) END, 'big', 60, to_json(repeat('x', 65530)), current_user::regrole, now() FROM generate_series(1, 50) n`,
	`INSERT INTO belfry.consumer_group (queue_id, name, whole_queue) SELECT q.id, 'stuck', true FROM belfry.queue q WHERE q.name = 'big'`,
	`INSERT INTO belfry.cursor (partition_id, group_id, ready_at, attempts, failures, retry_at)
	 SELECT p.id, g.id, belfry.blocked(), 4, 4, belfry.blocked() FROM belfry.partition p JOIN belfry.consumer_group g ON g.queue_id = p.queue_id AND g.name = 'stuck'`,
	`INSERT INTO belfry.revoked_token (id, expires_at) SELECT n || repeat('x', 200), now() + interval '1 hour' FROM generate_series(1, 1000) n`,
	`INSERT INTO belfry.history
	 SELECT date_trunc('minute', now()) - m * interval '1 minute', 1, '` + fixedID + `', 'q' || q || repeat('"', 240), 'g', 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, '{}', 1
	   FROM generate_series(1, 150) q, generate_series(1, 60) m`,
}

// onLargeTables serves the API on a database with large lists. Pops and pushes use fakes.
func onLargeTables(t *testing.T, edit func(cfg *httpapi.Config)) *httpapi.Server {
	t.Helper()
	cfg := postgres.DefaultConfig()
	cfg.URL, cfg.RequestTimeout = setting.Secret(pgtest.Database(t)), patience
	pool, err := postgres.Open(t.Context(), cfg, "belfry-test", 0)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	for _, statement := range append(fillLarge, "ANALYZE") {
		_, err := pool.Exec(t.Context(), statement)
		require.NoError(t, err, statement)
	}
	var s *httpapi.Server
	s, _ = apitest.Server(&apitest.Fakes{}, func(cfg *httpapi.Config, deps *httpapi.Deps) {
		edit(cfg)
		log, all, groups := zap.NewNop(), stats.New(pool), stats.NewGroups(pool)
		deps.DeadLetters, deps.Traces = deadletter.New(pool, nil, &events.Bus{}, log), trace.New(pool, nil, "")
		deps.Resources, deps.Queues, deps.Tags, deps.Live, deps.GroupReader, deps.Progress = all, all, all, all, groups, groups
		deps.Totals = totals.New(pool, problem.DefaultConfig().LateAfter)
		deps.Problems, deps.Explainer, deps.Streams, deps.Audit = problem.New(pool, problem.DefaultConfig()), explain.New(pool, 0), streams.New(pool), audit.NewLog(pool, log)
		deps.Owners = struct {
			*catalog.Owners
			*store.Store
		}{Owners: catalog.NewOwners(pool)} // without grants no code asks for the queue of a partition
		deps.Attachments, deps.Rejections, deps.History = attach.NewLister(pool), inbox.NewRejections(pool), history.NewReader(pool, nil, nil)
		deps.Recent, deps.Partitions = history.NewReader(pool, nil, nil), groups
		deps.Rights, deps.Schedules, deps.Limits = rights.New(pool, token.Config{}), schedule.NewStore(pool), limit.NewStore(pool, &events.Bus{})
		deps.Breakers, deps.Catalog = limit.NewStore(pool, &events.Bus{}), catalog.New(pool, nil, &events.Bus{}, log)
		api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.Handler().ServeHTTP(w, r) })
		deps.Dashboard, err = dashboard.New(dashboard.DefaultConfig(), dashboard.Deps{API: api, Changes: &source.Changes{}, Log: log})
		require.NoError(t, err)
	})
	return s
}

// reserving records how much memory was reserved when the answer began.
type reserving struct {
	*httptest.ResponseRecorder
	budget *inflight.Budget
	begun  int64
}

func (w *reserving) Write(p []byte) (int, error) {
	if w.begun == 0 {
		w.begun = w.budget.Used()
	}
	return w.ResponseRecorder.Write(p)
}

// TestEveryLargeAnswerIsReserved checks each route. A route must reserve memory before it sends an answer of more than 64
// KiB. If no memory is left, it must answer 503. The map small has the exceptions.
func TestEveryLargeAnswerIsReserved(t *testing.T) {
	t.Parallel()
	s := onLargeTables(t, func(*httpapi.Config) {})
	ask := func(route httpapi.Route) *reserving {
		target := url.URL{Path: strings.NewReplacer(":queue", "big", ":group", "g", ":partitionId", fixedID, ":transactionId", "t1", ":partition", "p", ":name", "t").Replace(route.Path)}
		how, known := largeAnswers[route.Method+" "+route.Path]
		body := ""
		switch {
		case !known:
			target.RawQuery = "limit=1000"
		case strings.HasPrefix(how, "?"):
			target.RawQuery = how[1:]
		case strings.HasPrefix(how, "{"):
			body = how
		default:
			target.Path, target.RawQuery, _ = strings.Cut("/"+how, "?")
		}
		w := &reserving{ResponseRecorder: httptest.NewRecorder(), budget: s.Inflight()}
		s.Handler().ServeHTTP(w, apitest.Request(route.Method, target.String(), body))
		return w
	}
	walked := 0
	for _, route := range s.Routes() {
		name := route.Method + " " + route.Path
		reason, listed := small[name]
		_, large := largeAnswers[name]
		switch {
		case listed:
			walked++
			if reason == figures || reason == oneRow {
				got := ask(route)
				require.LessOrEqual(t, got.Body.Len(), inflight.FreeAnswer, name)
			}
			continue
		case !large && route.Method != http.MethodGet:
			continue // a route that changes state: the reservation of its body covers its answer
		case large:
			walked++
		}
		t.Run(name, func(t *testing.T) {
			full := s.Inflight().Reservation()
			defer full.End()
			got := ask(route)
			require.Equal(t, http.StatusOK, got.Code, "%.300s", got.Body)
			require.Greater(t, got.Body.Len(), inflight.FreeAnswer, "the test data must make the answer large: %.300s", got.Body)
			require.GreaterOrEqual(t, got.begun, int64(got.Body.Len()), "the memory of the answer must be reserved before the answer begins")
			require.Zero(t, s.Inflight().Used(), "the memory must be released after the answer")

			full.Cover(math.MaxInt32)
			refused := ask(route)
			require.Equal(t, http.StatusServiceUnavailable, refused.Code, "%.300s", refused.Body)
			require.Equal(t, "1", refused.Header().Get("Retry-After"))
			require.Contains(t, refused.Body.String(), "http.max_inflight_bytes")
		})
	}
	for path, body := range map[string]string{ // the reservation of the body covers these answers, so they are not refused
		"/api/v1/push":      `{"items":[` + strings.Repeat(`{"queue":"q","payload":1},`, 999) + `{"queue":"q","payload":1}]}`,
		"/api/v1/ack/batch": `{"acknowledgments":[` + strings.Repeat(`{"transactionId":"t","partitionId":"p"},`, 999) + `{"transactionId":"t","partitionId":"p"}]}`,
	} {
		w := &reserving{ResponseRecorder: httptest.NewRecorder(), budget: s.Inflight()}
		s.Handler().ServeHTTP(w, apitest.Request(http.MethodPost, path, body))
		require.Less(t, w.Code, 300, w.Body)
		require.Greater(t, w.Body.Len(), inflight.FreeAnswer)
		require.GreaterOrEqual(t, w.begun, int64(len(body)*inflight.BodyCopies+w.Body.Len()), path)
	}
	require.Equal(t, len(small)+len(largeAnswers), walked, "small and largeAnswers must name only existing routes")
}

// A page of large rows ends after http.max_response_bytes. The next page starts at the cursor of the answer, or at the old
// offset plus the limit in the answer. The pages together must list each row exactly once.
func TestLargeRowsArePagedByBytes(t *testing.T) {
	t.Parallel()
	const most, rows, row = 1 << 20, 50, 100_000
	s := onLargeTables(t, func(cfg *httpapi.Config) { cfg.MaxResponseBytes = most })
	for path, list := range map[string]string{
		"/api/v1/dlq":                       "messages",
		"/api/v1/dlq/summary":               "messages",
		"/api/v1/schedules":                 "schedules",
		"/api/v1/traces/by-name/t":          "traces",
		"/api/v1/traces/" + fixedID + "/t1": "traces",
	} {
		for _, byOffset := range []bool{false, true} {
			if byOffset && strings.HasSuffix(path, "summary") || list == "schedules" || strings.HasSuffix(path, "t1") {
				continue // these lists have no offset
			}
			seen, query := map[string]bool{}, url.Values{"limit": {"1000"}}
			for pages := 1; ; pages++ {
				got := apitest.SendOK(t, s, apitest.Request(http.MethodGet, path+"?"+query.Encode(), ""))
				require.Less(t, got.Body.Len(), most+row, path)
				var answer map[string]json.RawMessage
				require.NoError(t, json.Unmarshal(got.Body.Bytes(), &answer))
				var found []struct{ ID, Name string }
				require.NoError(t, json.Unmarshal(answer[list], &found))
				for _, one := range found {
					require.False(t, seen[one.ID+one.Name], "%s lists %s twice", path, one.ID+one.Name)
					seen[one.ID+one.Name] = true
				}
				var pagination struct {
					Limit int
					Next  *string
				}
				require.NoError(t, json.Unmarshal(answer["pagination"], &pagination))
				if pagination.Next == nil {
					require.Greater(t, pages, rows*row/most, path)
					break
				}
				if query.Set("cursor", *pagination.Next); byOffset {
					require.Len(t, found, pagination.Limit, path)
					query.Del("cursor")
					query.Set("offset", fmt.Sprint(len(seen)))
				}
			}
			require.Len(t, seen, rows, path)
		}
	}
}
