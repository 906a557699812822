package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/audit"
	"github.com/belfry-mq/belfry/pkg/httpapi/adminplane"
	"github.com/belfry-mq/belfry/pkg/httpapi/dataplane"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
)

// Route is one row of the route table.
type Route struct {
	Method, Path string
	// Right is what a request needs.
	Right   Right
	handler echo.HandlerFunc
}

// routeTable is the whole API on one screen.
func (s *Server) routeTable() []Route {
	const get, post, remove = http.MethodGet, http.MethodPost, http.MethodDelete
	data, admin := s.planes()
	answer, count, change := wire.JSON, s.statistics.limit, s.audited
	return append(s.internalRoutes(), []Route{
		{get, "/openapi.json", Public, s.openapi},
		{get, "/api/v1/whoami", AnyRole, answer(s.whoami)},

		{post, "/api/v1/push", Write, data.Push},
		{get, "/api/v1/pop", Write, data.PopTagged},
		{get, "/api/v1/pop/queue/:queue", Write, data.PopQueue},
		{get, "/api/v1/pop/queue/:queue/partition/:partition", Write, data.PopPartition},
		{post, "/api/v1/ack", Write, data.Ack},
		{post, "/api/v1/ack/batch", Write, data.AckBatch},
		{post, "/api/v1/transaction", Write, data.Transaction},
		{post, "/api/v1/lease/:leaseId/extend", Write, answer(data.Extend)},

		{post, "/api/v1/configure", Write, change(audit.ConfigureQueue, admin.Configure)},
		{remove, "/api/v1/resources/queues/:queue", Administer, change(audit.DeleteQueue, admin.DeleteQueue)},
		{get, "/api/v1/consumer-groups", Read, answer(count(admin.ListGroups))},
		{get, "/api/v1/consumer-groups/lagging", Read, answer(count(admin.LaggingGroups))},
		{get, "/api/v1/consumer-groups/:group", Read, answer(count(admin.ShowGroup))},
		{remove, "/api/v1/consumer-groups/:group", Administer, change(audit.DeleteGroup, admin.DeleteGroup)},
		{remove, "/api/v1/consumer-groups/:group/queues/:queue", Administer, change(audit.DeleteGroup, admin.DeleteGroupOfQueue)},
		{post, "/api/v1/consumer-groups/:group/subscription", Write, change(audit.SetSubscriptionStart, admin.SetSubscriptionStart)},
		{post, "/api/v1/consumer-groups/:group/queues/:queue/seek", Write, change(audit.SeekGroup, admin.SeekQueue)},
		{post, "/api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/seek", Write, change(audit.SeekGroup, admin.SeekPartition)},
		{get, "/api/v1/resources/queues", Read, answer(count(admin.Queues))},
		{get, "/api/v1/resources/queues/:queue", Read, answer(count(admin.Queue))},
		{get, "/api/v1/resources/namespaces", Read, answer(count(admin.Namespaces))},
		{get, "/api/v1/resources/tasks", Read, answer(count(admin.Tasks))},
		{get, "/api/v1/resources/overview", Read, answer(count(admin.Overview))},
		{get, "/api/v1/messages", Read, answer(admin.Messages)},
		{get, "/api/v1/status/queues", Read, answer(count(admin.QueueStatuses))},
		{get, "/api/v1/status/queues/:queue", Read, answer(count(admin.QueueStatus))},
		{get, "/api/v1/status/queues/:queue/messages", Read, answer(admin.QueueMessages)},
		{get, "/api/v1/status/dispatcher", Read, answer(count(admin.DispatcherStatus))},
		{get, "/api/v1/status/sweeps", Read, answer(admin.Sweeps)},
		{get, "/api/v1/dlq", Read, answer(admin.ListDeadLetters)},
		{remove, "/api/v1/dlq", Administer, change(audit.PurgeDeadLetters, admin.PurgeDeadLetters)},
		{post, "/api/v1/dlq/redrive", Write, change(audit.RedriveDeadLetters, admin.Redrive)},
		{get, "/api/v1/messages/:partitionId/:transactionId", Read, answer(admin.ShowMessage)},
		{remove, "/api/v1/messages/:partitionId/:transactionId", Write, change(audit.DeleteMessage, admin.DeleteMessage)},
		{post, "/api/v1/messages/:partitionId/:transactionId/dlq", Write, change(audit.DeadLetterMessage, admin.DeadLetterMessage)},
		{post, "/api/v1/messages/:partitionId/:transactionId/retry", Write, change(audit.RetryMessage, admin.RetryMessage)},
		{post, "/api/v1/traces", Write, answer(admin.AddTrace)},
		{get, "/api/v1/traces/names", Read, answer(admin.TraceNames)},
		{get, "/api/v1/traces/by-name/:name", Read, answer(admin.NamedTraces)},
		{get, "/api/v1/traces/:partitionId/:transactionId", Read, answer(admin.MessageTraces)},
		{get, "/api/v1/audit", Administer, answer(admin.ListAudit)},
	}...)
}

// internalRoutes are the routes that http.internal_addr serves too.
func (s *Server) internalRoutes() []Route {
	return append(s.probes(s.deps.Listener, s.deps.Popper.Waiting), Route{http.MethodGet, "/metrics/prometheus", Public, s.prometheus})
}

// probes are the routes that a server answers from its start on.
func (s *Server) probes(listener func() ListenerState, waiting func() int) []Route {
	health := s.health(listener, waiting)
	return []Route{
		{http.MethodGet, "/livez", Public, live},
		{http.MethodHead, "/livez", Public, live},
		{http.MethodGet, "/readyz", Public, s.ready},
		{http.MethodHead, "/readyz", Public, s.ready},
		{http.MethodGet, "/health", Public, health},
		{http.MethodHead, "/health", Public, health},
	}
}

func (s *Server) planes() (*dataplane.Handlers, *adminplane.Handlers) {
	d := s.deps
	bodies := wire.BodyReader{MaxBytes: s.cfg.MaxBodyBytes, Budget: s.inflight}
	limits := dataplane.Limits{Items: s.cfg.MaxItems, Partitions: s.cfg.MaxPartitions, Acks: s.cfg.MaxAcks}
	data := &dataplane.Handlers{Verbs: d.Verbs, Popper: d.Popper, Meter: s.start.Metrics, Defaults: d.Defaults, Bodies: bodies, Limits: limits}
	admin := &adminplane.Handlers{
		Transactor: d.Verbs, Waiting: d.Popper, Catalog: d.Catalog, GroupWriter: d.GroupWriter, GroupReader: d.GroupReader,
		Resources: d.Resources, DeadLetters: d.DeadLetters, Traces: d.Traces, Audit: d.Audit, Listener: d.Listener, Inbox: d.Inbox,
		Meter: s.start.Metrics, Defaults: d.Defaults, Bodies: bodies,
	}
	return data, admin
}
