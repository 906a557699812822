package integration_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/access/token"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// place is a queue with its contents. The queue may exist or not.
type place struct{ queue, namespace, group, trace, partition, message, lease, stream string }

// probesOf returns requests that could tell whether a place exists, by method and path of the OpenAPI document.
func probesOf(o place) map[string][]call {
	del := func(target string) call { return call{Method: http.MethodDelete, Target: target} }
	path := o.partition + "/" + o.message
	acked := fmt.Sprintf(`{"transactionId":%q,"partitionId":%q,"consumerGroup":%q,"leaseId":%q`, o.message, o.partition, o.group, o.lease)
	grouped := fmt.Sprintf(`{"consumerGroup":%q}`, o.group)
	of := "/api/v1/consumer-groups/" + o.group
	return asideProbes(o, map[string][]call{
		"GET /api/v1/whoami":            {get("/api/v1/whoami")},
		"GET /api/v1/events":            {get("/api/v1/events?timeout=50")},
		"GET /api/v1/sse/queue/{queue}": {get("/api/v1/sse/queue/" + o.queue + "?timeout=50"), get("/api/v1/sse/queue/" + o.queue + "?timeout=50&partition=p&consumerGroup=" + o.group)},
		"GET /api/v1/explain":           {get("/api/v1/explain?queue=" + o.queue), get("/api/v1/explain?queue=" + o.queue + "&partition=p&consumerGroup=" + o.group + "&transactionId=" + o.message)},
		"POST /api/v1/push": {post("/api/v1/push", fmt.Sprintf(`{"items":[{"queue":%q,"payload":1}]}`, o.queue)),
			post("/api/v1/push", fmt.Sprintf(`{"items":[{"queue":"a.one","payload":"refused"},{"queue":%q,"payload":1}]}`, o.queue))},
		"GET /api/v1/pop":                                     {get("/api/v1/pop?consumerGroup=" + o.group + "&namespace=" + o.namespace)},
		"GET /api/v1/pop/queue/{queue}":                       {get("/api/v1/pop/queue/" + o.queue + "?consumerGroup=" + o.group)},
		"GET /api/v1/pop/queue/{queue}/partition/{partition}": {get("/api/v1/pop/queue/" + o.queue + "/partition/p"), get("/api/v1/pop/queue/" + o.queue + "/partition/p?batch=0")},
		"POST /api/v1/ack":                                    {post("/api/v1/ack", acked+`,"status":"completed"}`), post("/api/v1/ack", acked+`,"status":"dlq"}`)},
		"POST /api/v1/ack/batch":                              {post("/api/v1/ack/batch", fmt.Sprintf(`{"consumerGroup":%q,"acknowledgments":[{"transactionId":%q,"partitionId":%q}]}`, o.group, o.message, o.partition))},
		"POST /api/v1/transaction": {
			post("/api/v1/transaction", `{"operations":[`+strings.Replace(acked, "{", `{"type":"ack",`, 1)+`}]}`),
			post("/api/v1/transaction", fmt.Sprintf(`{"operations":[{"type":"push","items":[{"queue":"a.one","payload":"refused"}]}],"requiredLeases":[%q]}`, o.lease)),
			post("/api/v1/transaction", fmt.Sprintf(`{"operations":[{"type":"push","items":[{"queue":"a.one","payload":"refused"},{"queue":%q,"payload":1}]}]}`, o.queue)),
		},
		"POST /api/v1/lease/{leaseId}/extend":                                             {post("/api/v1/lease/"+o.lease+"/extend", "{}")},
		"POST /api/v1/configure":                                                          {post("/api/v1/configure", fmt.Sprintf(`{"queue":%q,"options":{}}`, o.queue))},
		"PATCH /api/v1/resources/queues/{queue}":                                          {{Method: http.MethodPatch, Target: "/api/v1/resources/queues/" + o.queue, Body: `{"options":{}}`}},
		"DELETE /api/v1/resources/queues/{queue}":                                         {del("/api/v1/resources/queues/" + o.queue)},
		"GET /api/v1/resources/queues/{queue}":                                            {get("/api/v1/resources/queues/" + o.queue)},
		"POST /api/v1/resources/queues/{queue}/resume":                                    {post("/api/v1/resources/queues/"+o.queue+"/resume", "")},
		"POST /api/v1/resources/queues/{queue}/pause":                                     {post("/api/v1/resources/queues/"+o.queue+"/pause", ""), post("/api/v1/resources/queues/"+o.queue+"/resume", "")},
		"POST /api/v1/resources/queues/{queue}/partitions/{partition}/pause":              {post("/api/v1/resources/queues/"+o.queue+"/partitions/p/pause", ""), post("/api/v1/resources/queues/"+o.queue+"/partitions/p/resume", "")},
		"POST /api/v1/resources/queues/{queue}/partitions/{partition}/resume":             {post("/api/v1/resources/queues/"+o.queue+"/partitions/p/resume", "")},
		"POST /api/v1/consumer-groups/{group}/queues/{queue}/pause":                       {post(of+"/queues/"+o.queue+"/pause", ""), post(of+"/queues/"+o.queue+"/resume", "")},
		"POST /api/v1/consumer-groups/{group}/queues/{queue}/resume":                      {post(of+"/queues/"+o.queue+"/resume", "")},
		"GET /api/v1/resources/queues":                                                    {get("/api/v1/resources/queues")},
		"GET /api/v1/resources/namespaces":                                                {get("/api/v1/resources/namespaces")},
		"GET /api/v1/resources/tasks":                                                     {get("/api/v1/resources/tasks")},
		"GET /api/v1/resources/overview":                                                  {get("/api/v1/resources/overview")},
		"GET /api/v1/consumer-groups":                                                     {get("/api/v1/consumer-groups")},
		"GET /api/v1/consumer-groups/lagging":                                             {get("/api/v1/consumer-groups/lagging?minLagSeconds=0")},
		"GET /api/v1/consumer-groups/{group}":                                             {get(of)},
		"DELETE /api/v1/consumer-groups/{group}":                                          {del(of)},
		"DELETE /api/v1/consumer-groups/{group}/queues/{queue}":                           {del(of + "/queues/" + o.queue)},
		"POST /api/v1/consumer-groups/{group}/subscription":                               {post(of+"/subscription", `{"subscriptionTimestamp":"2026-01-01T00:00:00Z"}`)},
		"POST /api/v1/consumer-groups/{group}/queues/{queue}/seek":                        {post(of+"/queues/"+o.queue+"/seek", `{"toEnd":true}`)},
		"POST /api/v1/consumer-groups/{group}/queues/{queue}/partitions/{partition}/seek": {post(of+"/queues/"+o.queue+"/partitions/p/seek", `{"toEnd":true}`)},
		"GET /api/v1/resources/queues/{queue}/groups":                                     {get("/api/v1/resources/queues/" + o.queue + "/groups")},
		"GET /api/v1/resources/queues/{queue}/partitions":                                 {get("/api/v1/resources/queues/" + o.queue + "/partitions"), get("/api/v1/resources/queues/" + o.queue + "/partitions?order=worst")},
		"GET /api/v1/consumer-groups/{group}/queues/{queue}":                              {get(of + "/queues/" + o.queue)},
		"GET /api/v1/consumer-groups/{group}/queues/{queue}/partitions":                   {get(of + "/queues/" + o.queue + "/partitions"), get(of + "/queues/" + o.queue + "/partitions?list=leased")},
		"GET /api/v1/consumer-groups/{group}/queues/{queue}/seek":                         {get(of + "/queues/" + o.queue + "/seek?toBeginning=true")},
		"GET /api/v1/messages":                                                            {get("/api/v1/messages"), get("/api/v1/messages?queue=" + o.queue), get("/api/v1/messages?partition=p&queue=" + o.queue + "&transactionId=" + o.message), get("/api/v1/messages?ns=" + o.namespace)},
		"GET /api/v1/status/queues":                                                       {get("/api/v1/status/queues"), get("/api/v1/status/queues?namespace=" + o.namespace)},
		"GET /api/v1/status/queues/{queue}":                                               {get("/api/v1/status/queues/" + o.queue)},
		"GET /api/v1/status/queues/{queue}/messages":                                      {get("/api/v1/status/queues/" + o.queue + "/messages")},
		"GET /api/v1/status/dispatcher":                                                   {get("/api/v1/status/dispatcher")},
		"GET /api/v1/status/sweeps":                                                       {get("/api/v1/status/sweeps")},
		"GET /api/v1/messages/{partitionId}/{transactionId}":                              {get("/api/v1/messages/" + path)},
		"DELETE /api/v1/messages/{partitionId}/{transactionId}":                           {del("/api/v1/messages/" + path)},
		"POST /api/v1/messages/{partitionId}/{transactionId}/dlq":                         {post("/api/v1/messages/"+path+"/dlq", grouped), post("/api/v1/messages/"+path+"/dlq", "")},
		"GET /api/v1/messages/{partitionId}/{transactionId}/attempts":                     {get("/api/v1/messages/" + path + "/attempts")},
		"POST /api/v1/messages/{partitionId}/{transactionId}/resend":                      {post("/api/v1/messages/"+path+"/resend", "")},
		"POST /api/v1/messages/{partitionId}/{transactionId}/retry":                       {post("/api/v1/messages/"+path+"/retry", grouped), post("/api/v1/messages/"+path+"/retry", "")},
		"POST /api/v1/traces":                                                             {post("/api/v1/traces", fmt.Sprintf(`{"transactionId":%q,"partitionId":%q,"consumerGroup":%q,"data":1}`, o.message, o.partition, o.group))},
		"POST /streams/v1/queries":                                                        {post("/streams/v1/queries", fmt.Sprintf(`{"name":"sum","source_queue":%q,"config_hash":"2","sink_queue":"a.one"}`, o.queue)), post("/streams/v1/queries", fmt.Sprintf(`{"name":"new","source_queue":"a.one","config_hash":"1","sink_queue":%q}`, o.queue))},
		"POST /streams/v1/state/get":                                                      {post("/streams/v1/state/get", fmt.Sprintf(`{"query_id":%q,"partition_id":%q}`, o.stream, o.partition))},
		"POST /streams/v1/cycle": {
			post("/streams/v1/cycle", fmt.Sprintf(`{"query_id":%q,"partition_id":%q,"state_ops":[{"type":"upsert","key":"refused"}]}`, o.stream, o.partition)),
			post("/streams/v1/cycle", fmt.Sprintf(`{"query_id":%q,"partition_id":%q,"consumer_group":%q,"ack":{"transactionId":%q,"leaseId":%q}}`, o.stream, o.partition, o.group, o.message, o.lease)),
		},
		"GET /api/v1/streams":                              {get("/api/v1/streams")},
		"DELETE /api/v1/streams/{id}":                      {del("/api/v1/streams/" + o.stream)},
		"GET /api/v1/traces/names":                         {get("/api/v1/traces/names")},
		"GET /api/v1/traces/by-name/{name}":                {get("/api/v1/traces/by-name/" + o.trace)},
		"GET /api/v1/traces/{partitionId}/{transactionId}": {get("/api/v1/traces/" + path)},
		"GET /api/v1/audit":                                {get("/api/v1/audit"), get("/api/v1/audit?queue=" + o.queue), get("/api/v1/audit?consumerGroup=" + o.group)},
		"GET /api/v1/system/shared-state":                  {get("/api/v1/system/shared-state")},
		"GET /api/v1/doctor":                               {get("/api/v1/doctor")},
		"GET /api/v1/queues":                               {get("/api/v1/queues"), get("/api/v1/queues?name=" + o.queue), get("/api/v1/queues?namespace=" + o.namespace)},
		"GET /api/v1/tags":                                 {get("/api/v1/tags")},
		"GET /api/v1/problems":                             {get("/api/v1/problems")},
		"GET /api/v1/status":                               {get("/api/v1/status"), get("/api/v1/status?queue=" + o.queue), get("/api/v1/status?namespace=" + o.namespace)},
		"GET /api/v1/status/analytics":                     {get("/api/v1/status/analytics"), get("/api/v1/status/analytics?queue=" + o.queue), get("/api/v1/status/analytics?task=" + o.namespace)},
		"GET /api/v1/analytics/system-metrics":             {get("/api/v1/analytics/system-metrics")},
		"GET /api/v1/analytics/worker-metrics":             {get("/api/v1/analytics/worker-metrics"), get("/api/v1/analytics/worker-metrics?consumerGroup=" + o.group)},
		"GET /api/v1/analytics/queue-lag":                  {get("/api/v1/analytics/queue-lag"), get("/api/v1/analytics/queue-lag?queue=" + o.queue)},
		"GET /api/v1/analytics/queue-ops":                  {get("/api/v1/analytics/queue-ops"), get("/api/v1/analytics/queue-ops?namespace=" + o.namespace)},
		"GET /api/v1/analytics/queue-parked-replicas":      {get("/api/v1/analytics/queue-parked-replicas")},
		"GET /api/v1/analytics/retention":                  {get("/api/v1/analytics/retention"), get("/api/v1/analytics/retention?queue=" + o.queue)},
		"GET /api/v1/analytics/postgres-stats":             {get("/api/v1/analytics/postgres-stats")},
		"POST /api/v1/stats/refresh":                       {post("/api/v1/stats/refresh", "")},
		"GET /api/v1/system/maintenance":                   {get("/api/v1/system/maintenance")},
		"GET /api/v1/system/maintenance/pop":               {get("/api/v1/system/maintenance/pop")},
		"POST /api/v1/system/maintenance":                  {post("/api/v1/system/maintenance", `{"enabled":true}`)},
		"GET /api/v1/system/maintenance/rejected":          {get("/api/v1/system/maintenance/rejected")},
		"DELETE /api/v1/system/maintenance/rejected":       {del("/api/v1/system/maintenance/rejected")},
		"POST /api/v1/system/maintenance/rejected/retry":   {post("/api/v1/system/maintenance/rejected/retry", "")},
		"GET /api/v1/status/buffers":                       {get("/api/v1/status/buffers")},
		"POST /api/v1/system/maintenance/pop":              {post("/api/v1/system/maintenance/pop", `{"enabled":true}`)}, "GET /api/v1/totals": {get("/api/v1/totals")}, "GET /api/v1/totals/namespaces": {get("/api/v1/totals/namespaces"), get("/api/v1/totals/namespaces?sort=queues")}, "GET /api/v1/resources/queues/{queue}/search": {get("/api/v1/resources/queues/" + o.queue + "/search?name=p")}, "GET /api/v1/totals/tasks": {get("/api/v1/totals/tasks")}, "GET /api/v1/groups": {get("/api/v1/groups"), get("/api/v1/groups?sort=oldest&served=true&queue=" + o.queue)},
	})
}

// withSecret returns an option that enables tokens, and a function that makes tokens.
func withSecret(t *testing.T) (option func(*config.Config), made func(subject string, role identity.Role, grants *identity.Grants) string) {
	auth := config.Default().Auth
	auth.Enabled, auth.Secret = true, setting.Secret(strings.Repeat("s", 32))
	option = func(cfg *config.Config) { cfg.Auth = auth }
	made = func(subject string, role identity.Role, grants *identity.Grants) string {
		text, err := token.Sign(auth, token.Request{Subject: subject, Role: role, Grants: grants, Lifetime: time.Hour}, token.SecretKey(auth.Secret.Reveal()))
		require.NoError(t, err)
		return text
	}
	return option, made
}

// tenancy is a server with the token of an operator. The token has no grants, so it may do everything.
type tenancy struct {
	client
	operator string
}

func (s tenancy) as(token string, what call) reply {
	s.t.Helper()
	what.Token = token
	got, err := s.send(s.t.Context(), what)
	require.NoError(s.t, err)
	return got
}

// do sends a request as the operator. The request must succeed.
func (s tenancy) do(what call) reply {
	s.t.Helper()
	got := s.as(s.operator, what)
	require.Less(s.t, got.Status, 300, "%s %s: %s", what.Method, what.Target, got.Raw)
	return got
}

// fill makes a place exist. One of its messages is a dead letter. Another message is leased and has a trace.
func (s tenancy) fill(o *place) {
	s.t.Helper()
	s.do(post("/api/v1/configure", fmt.Sprintf(`{"queue":%q,"namespace":%q,"task":%q}`, o.queue, o.namespace, o.namespace)))
	for _, id := range []string{"d", o.message} {
		s.do(post("/api/v1/push", fmt.Sprintf(`{"items":[{"queue":%q,"partition":"p","transactionId":%q,"payload":1}]}`, o.queue, id)))
	}
	pop := func() (found delivery) {
		require.NoError(s.t, json.Unmarshal(s.do(get("/api/v1/pop/queue/"+o.queue+"?consumerGroup="+o.group)).Raw, &found))
		return found
	}
	dead := pop()
	o.partition = dead.Messages[0].PartitionID
	s.do(post("/api/v1/ack", fmt.Sprintf(`{"transactionId":"d","partitionId":%q,"leaseId":%q,"consumerGroup":%q,"status":"dlq"}`, o.partition, dead.LeaseID, o.group)))
	o.lease = pop().LeaseID
	var registered streamQuery
	require.NoError(s.t, json.Unmarshal(s.do(post("/streams/v1/queries", fmt.Sprintf(`{"name":"sum","source_queue":%q,"config_hash":"1"}`, o.queue))).Raw, &registered))
	o.stream = registered.QueryID
	s.do(post("/streams/v1/cycle", fmt.Sprintf(`{"query_id":%q,"partition_id":%q,"state_ops":[{"type":"upsert","key":"k","value":"state of %s"}]}`, o.stream, o.partition, o.queue)))
	s.do(post("/api/v1/traces", fmt.Sprintf(`{"transactionId":%q,"partitionId":%q,"traceNames":[%q],"data":{}}`, o.message, o.partition, o.trace)))
	s.fillAside(o)
}

// variable matches the parts in which two equal answers differ because of time or random ids.
var variable = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z|"(maxTimeLag|nextAt|time_lag_seconds|oldestSeconds|[a-z]+PerSecond)":[^,}]*|"time":{[^}]*}`)

// The token of a tenant has the role admin, but its grants cover only a.*. No route may tell the tenant whether the queue
// b.x exists. The same holds for the partitions, messages, leases, groups, namespace and traces of b.x. No route may change
// them.
func TestATenantLearnsNothingOfOtherQueues(t *testing.T) {
	t.Parallel()
	option, made := withSecret(t)
	s := tenancy{startOn(t, pgtest.Database(t), option).client(t), made("ops", identity.Admin, nil)}
	as, do, c := s.as, s.do, s.client
	there := place{queue: "b.x", namespace: "nsb", group: "gb", trace: "nameb", message: "mb"}
	s.fill(&there)
	own := place{queue: "a.one", namespace: "nsa", group: "ga", trace: "namea", message: "ma"}
	s.fill(&own)
	s.scan(t, `WITH i AS (INSERT INTO belfry.history_instance VALUES (date_trunc('minute', now()), 1, gen_random_uuid(), 'host', 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1) RETURNING at, instance),
		h AS (INSERT INTO belfry.history SELECT i.at, 1, i.instance, q, g, 1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, '{1}', 7
			FROM i, (VALUES ('b.x', ''), ('b.x', 'gb'), ('a.one', ''), ('a.one', 'ga'), ('(other)', '')) AS v(q, g) RETURNING 1) SELECT count(*) FROM h`, nil, new(int))
	nowhere := place{"b.z", "nsz", "gz", "namez", queue.NewID().String(), "mb", queue.NewID().String(), queue.NewID().String()}

	tenant := made("tenant", identity.Admin, &identity.Grants{Read: []string{"a.*"}, Push: []string{"a.*"}, Consume: []string{"a.*"}, Admin: []string{"a.*"}})
	contents := func() (text string) {
		c.scan(t, `SELECT concat_ws(E'\n', (SELECT json_agg(q ORDER BY q.id) FROM belfry.queue q WHERE q.name LIKE 'b.%'), (SELECT json_agg(m ORDER BY m.id) FROM belfry.message m),
			(SELECT json_agg(c ORDER BY c.partition_id, c.group_id) FROM belfry.cursor c), (SELECT json_agg(g ORDER BY g.id) FROM belfry.consumer_group g), (SELECT json_agg(d ORDER BY d.id) FROM belfry.dead_letter d),
			(SELECT count(*) FROM belfry.trace), (SELECT json_agg(r.id ORDER BY r.id) FROM belfry.inbox_rejected r WHERE r.queue LIKE 'b.%'), (SELECT json_agg(s) FROM belfry.stream_state s), (SELECT json_agg(s) FROM belfry.stream s),
			(SELECT json_agg(concat_ws(' ', s.name, s.queue, s.paused, s.changed_at, s.last_transaction_id)) FROM belfry.schedule s))`, nil, &text)
		return text
	}
	before := contents()
	names := strings.NewReplacer(there.queue, "Q", nowhere.queue, "Q", there.namespace, "N", nowhere.namespace, "N", there.group, "G", nowhere.group, "G", there.trace, "T", nowhere.trace, "T")
	shown := func(got reply) string {
		return fmt.Sprint(got.Status, " ", got.Header.Get("Content-Type"), " ", names.Replace(variable.ReplaceAllString(string(got.Raw), "V")))
	}
	found, missing := probesOf(there), probesOf(nowhere)
	for route, calls := range found {
		for i, what := range calls {
			minute := time.Now().Truncate(time.Minute)
			a, b := as(tenant, what), as(tenant, missing[route][i])
			if time.Now().Truncate(time.Minute) != minute { // some answers list minutes, so both must come from the same minute
				a, b = as(tenant, what), as(tenant, missing[route][i])
			}
			require.Equal(t, shown(b), shown(a), "%s %s %s", what.Method, what.Target, what.Body)
			if a.Status != http.StatusForbidden { // a 403 repeats the name from the request
				for _, hidden := range []string{there.queue, there.namespace, there.trace} {
					require.NotContains(t, string(a.Raw), `"`+hidden+`"`, "%s %s", what.Method, what.Target)
				}
			}
		}
	}
	require.Equal(t, before, contents(), "the requests must change nothing")

	var document struct{ Paths map[string]map[string]any }
	require.NoError(t, json.Unmarshal(as("", get("/openapi.json")).Raw, &document))
	for path, methods := range document.Paths {
		for method := range methods {
			route := strings.ToUpper(method) + " " + path
			switch {
			case strings.HasPrefix(path, "/api/v1/migration/"): // always answered with 501
			case strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/streams/"):
				require.NotEmpty(t, found[route], "%s has no request in probesOf: add one", route)
			default:
				require.NotContains(t, string(as("", call{Method: strings.ToUpper(method), Target: path}).Raw), there.queue, route)
			}
		}
	}
	// The tenant may do all of this with its own queue.
	extended := ask[extension](c, call{Method: "POST", Target: "/api/v1/lease/" + own.lease + "/extend", Body: "{}", Token: tenant})
	require.True(t, extended.ok(http.StatusOK).Success)
	for range 2 { // at the second time the lease has ended
		applied := as(tenant, post("/api/v1/transaction", fmt.Sprintf(`{"operations":[{"type":"ack","transactionId":%q,"partitionId":%q,"consumerGroup":%q},{"type":"push","items":[{"queue":"a.one","partition":"p","transactionId":"pushed","payload":1}]}],"requiredLeases":[%q]}`,
			own.message, own.partition, own.group, own.lease)))
		require.Contains(t, string(applied.Raw), `"success":true,"results"`, "a repeated transaction must be recognized")
	}
	refused := map[string]bool{"DELETE /api/v1/consumer-groups/{group}": true, "POST /api/v1/consumer-groups/{group}/subscription": true, "GET /api/v1/status/dispatcher": true, "GET /api/v1/analytics/system-metrics": true,
		"GET /api/v1/analytics/queue-parked-replicas": true, "GET /api/v1/analytics/postgres-stats": true, "POST /api/v1/stats/refresh": true, "GET /api/v1/status/buffers": true, "GET /api/v1/doctor": true, "GET /api/v1/tags": true}
	for _, route := range []string{
		"GET /api/v1/resources/queues", "GET /api/v1/resources/namespaces", "GET /api/v1/resources/tasks", "GET /api/v1/consumer-groups", "GET /api/v1/consumer-groups/{group}",
		"GET /api/v1/consumer-groups/lagging", "GET /api/v1/messages", "GET /api/v1/status/queues", "GET /api/v1/dlq", "GET /api/v1/dlq/summary", "GET /api/v1/inbox/rejected", "GET /api/v1/attachments", "GET /api/v1/schedules", "GET /api/v1/schedules/{name}", "GET /api/v1/traces/names", "GET /api/v1/traces/by-name/{name}",
		"GET /api/v1/streams", "GET /api/v1/status", "GET /api/v1/analytics/worker-metrics", "GET /api/v1/analytics/queue-lag", "GET /api/v1/analytics/queue-ops", "POST /streams/v1/state/get", "GET /api/v1/messages/{partitionId}/{transactionId}", "GET /api/v1/traces/{partitionId}/{transactionId}", "GET /api/v1/audit", "GET /api/v1/queues", "GET /api/v1/groups", "GET /api/v1/totals/namespaces", "GET /api/v1/totals/tasks", "GET /api/v1/problems",
	} {
		require.Regexp(t, `"(a.one|nsa|ga|namea|state of a.one)"`, string(as(tenant, probesOf(own)[route][0]).Raw), route)
	}
	// A pop by task must return only messages of queues that the tenant may read, also when it waits.
	for _, name := range []string{there.queue, own.queue} {
		do(post("/api/v1/configure", fmt.Sprintf(`{"queue":%q,"task":"shared"}`, name)))
		do(post("/api/v1/push", fmt.Sprintf(`{"items":[{"queue":%q,"partition":"q","payload":1}]}`, name)))
	}
	for _, want := range []int{http.StatusOK, http.StatusOK, http.StatusNoContent} { // partitions p and q
		got := as(tenant, get("/api/v1/pop?task=shared&consumerGroup=new&batch=9&wait=true&timeout=200"))
		require.Equal(t, want, got.Status)
		require.NotContains(t, string(got.Raw), there.queue)
	}
	require.Equal(t, http.StatusForbidden, as(made("t", identity.ReadWrite, &identity.Grants{Push: []string{"*"}}), get("/api/v1/pop?task=shared")).Status)

	deletes := "DELETE /api/v1/resources/queues/{queue}"
	for route, calls := range probesOf(own) {
		if route != deletes && !strings.HasPrefix(route, "DELETE /api/v1/messages") {
			for _, what := range calls {
				got := as(tenant, what)
				if refused[route] || administers.MatchString(route) {
					require.Equal(t, http.StatusForbidden, got.Status, "%s %s", route, got.Raw)
				} else {
					require.NotEqual(t, http.StatusForbidden, got.Status, "%s %s: %s", what.Method, what.Target, got.Raw)
				}
			}
		}
	}
	require.Equal(t, http.StatusOK, as(tenant, probesOf(own)[deletes][0]).Status)
}

// The pages of a tenant must be full and their totals must be right, although rows of other tenants are between its rows.
func TestPagesOfATenantSkipOtherQueues(t *testing.T) {
	t.Parallel()
	option, made := withSecret(t)
	s := tenancy{startOn(t, pgtest.Database(t), option).client(t), made("ops", identity.Admin, nil)}
	for _, name := range []string{"b.1", "a.1", "b.2", "b.3", "a.2", "b.4"} {
		s.fill(&place{queue: name, namespace: "ns" + name, group: "g", trace: "trace" + name, message: "m"})
	}
	tenant := made("tenant", identity.Admin, &identity.Grants{Read: []string{"a.*"}, Admin: []string{"a.2", "a.1"}})
	for _, list := range []struct{ target, rows, name, total string }{
		{"/api/v1/status/queues", "queues", "name", ""}, {"/api/v1/dlq", "messages", "queue", "total"},
		{"/api/v1/traces/names", "trace_names", "trace_name", "total"}, {"/api/v1/audit?action=queue.configure", "entries", "queue", ""},
		{"/api/v1/messages", "messages", "queue", ""},
	} {
		var names []string
		for offset, cursor := 0, ""; ; offset++ {
			join := "?"
			if strings.Contains(list.target, "?") {
				join = "&"
			}
			target := fmt.Sprintf("%s%slimit=1", list.target, join)
			if cursor != "" {
				target += "&cursor=" + cursor
			} else if offset > 0 {
				target += fmt.Sprint("&offset=", offset)
			}
			var page map[string]any
			got := s.as(tenant, get(target))
			require.NoError(t, json.Unmarshal(got.Raw, &page))
			rows, _ := page[list.rows].([]any)
			if list.total != "" {
				require.EqualValues(t, 2, page[list.total], list.target)
			}
			if len(rows) == 0 {
				break
			}
			row, _ := rows[0].(map[string]any)
			names = append(names, strings.TrimPrefix(fmt.Sprint(row[list.name]), "trace"))
			pagination, _ := page["pagination"].(map[string]any)
			cursor, _ = pagination["next"].(string)
		}
		want := []string{"a.2", "a.1"}
		if list.rows == "messages" && list.name == "queue" && list.total == "" {
			want = []string{"a.2", "a.2", "a.1", "a.1"}
		}
		require.Equal(t, want, names, list.target)
	}
	var overview struct{ Queues, Namespaces, Partitions int }
	require.NoError(t, json.Unmarshal(s.as(tenant, get("/api/v1/resources/overview")).Raw, &overview))
	require.Equal(t, 2, overview.Queues)
	require.Equal(t, 2, overview.Namespaces)
	require.Equal(t, 4, overview.Partitions, "the partitions Default and p of both queues")
	lagging := s.as(tenant, get("/api/v1/consumer-groups/lagging?minLagSeconds=0&limit=1"))
	require.Contains(t, string(lagging.Raw), `"a.1"`, "the list must have the oldest partition of the tenant")
}

// All instances must refuse a revoked token at once. This includes an instance that has cached the token, an instance that
// starts later, and an instance that lost its LISTEN connection meanwhile.
func TestARevokedTokenIsRefusedEverywhere(t *testing.T) {
	t.Parallel()
	option, made := withSecret(t)
	dsn := pgtest.Database(t)
	one, other := tenancy{startOn(t, dsn, option).client(t), ""}, tenancy{startOn(t, dsn, option).client(t), ""}
	conn := producer(t, dsn)
	revoked, kept := made("anna", identity.Admin, nil), made("anna", identity.Admin, nil)
	status := func(s tenancy, token string) int { return s.as(token, get("/api/v1/status/queues")).Status }
	revoke := func(text string) string {
		content, err := token.Read(text)
		require.NoError(t, err)
		id, _ := content.Claims["jti"].(string)
		require.NoError(t, token.Revoke(t.Context(), conn, id, time.Time{}))
		return id
	}
	for range 2 { // the second answer comes from the cache
		require.Equal(t, http.StatusOK, status(one, revoked))
		require.Equal(t, http.StatusOK, status(other, revoked))
	}
	id := revoke(revoked)
	for _, s := range []tenancy{one, other} {
		until(t, "the token is revoked", func() bool { return status(s, revoked) == http.StatusUnauthorized })
		require.JSONEq(t, `{"error":"Token has been revoked"}`, string(s.as(revoked, get("/api/v1/whoami")).Raw))
		require.Equal(t, http.StatusOK, status(s, kept))
	}
	revoke(revoked) // revoking a token twice must not fail
	require.Equal(t, http.StatusUnauthorized, status(tenancy{startOn(t, dsn, option).client(t), ""}, revoked), "a new instance must read the revoked tokens at its start")

	// The notification of this revocation is lost, because the row is inserted directly.
	second := made("anna", identity.Admin, nil)
	require.Equal(t, http.StatusOK, status(one, second))
	content, err := token.Read(second)
	require.NoError(t, err)
	lost := content.Claims["jti"]
	execute(t, conn, `INSERT INTO belfry.revoked_token (id, expires_at) VALUES ($1, 'infinity')`, lost)
	execute(t, conn, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'belfry-listen'`)
	until(t, "the other token is revoked", func() bool { return status(one, second) == http.StatusUnauthorized })

	page := auditOf(t, one.as(kept, get("/api/v1/audit?action=token.revoke")))
	require.Len(t, page.Entries, 2)
	require.Contains(t, string(page.Entries[0].Parameters), id)
	require.Equal(t, "sql", page.Entries[0].Address)
	require.NotEmpty(t, page.Entries[0].Subject)
}
