package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/httpapi/adminplane"
	"github.com/belfry-mq/belfry/pkg/httpapi/dataplane"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
)

// Route is one row of the route table.
type Route struct {
	Method, Path string
	handler      echo.HandlerFunc
}

// routeTable is the whole API on one screen.
func (s *Server) routeTable() []Route {
	const get, post, remove = http.MethodGet, http.MethodPost, http.MethodDelete
	data, admin := s.planes()
	answer, count := wire.JSON, s.statistics.limit
	return append(s.internalRoutes(), []Route{
		{get, "/openapi.json", s.openapi},

		{post, "/api/v1/push", data.Push},
		{get, "/api/v1/pop", data.PopTagged},
		{get, "/api/v1/pop/queue/:queue", data.PopQueue},
		{get, "/api/v1/pop/queue/:queue/partition/:partition", data.PopPartition},
		{post, "/api/v1/ack", data.Ack},
		{post, "/api/v1/ack/batch", data.AckBatch},
		{post, "/api/v1/transaction", data.Transaction},
		{post, "/api/v1/lease/:leaseId/extend", answer(data.Extend)},

		{post, "/api/v1/configure", answer(admin.Configure)},
		{remove, "/api/v1/resources/queues/:queue", answer(admin.DeleteQueue)},
		{get, "/api/v1/consumer-groups", answer(count(admin.ListGroups))},
		{get, "/api/v1/consumer-groups/lagging", answer(count(admin.LaggingGroups))},
		{get, "/api/v1/consumer-groups/:group", answer(count(admin.ShowGroup))},
		{remove, "/api/v1/consumer-groups/:group", answer(admin.DeleteGroup)},
		{remove, "/api/v1/consumer-groups/:group/queues/:queue", answer(admin.DeleteGroupOfQueue)},
		{post, "/api/v1/consumer-groups/:group/subscription", answer(admin.SetSubscriptionStart)},
		{post, "/api/v1/consumer-groups/:group/queues/:queue/seek", answer(admin.SeekQueue)},
		{post, "/api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/seek", answer(admin.SeekPartition)},
		{get, "/api/v1/resources/queues", answer(count(admin.Queues))},
		{get, "/api/v1/resources/queues/:queue", answer(count(admin.Queue))},
		{get, "/api/v1/resources/namespaces", answer(count(admin.Namespaces))},
		{get, "/api/v1/resources/tasks", answer(count(admin.Tasks))},
		{get, "/api/v1/resources/overview", answer(count(admin.Overview))},
		{get, "/api/v1/messages", answer(admin.Messages)},
		{get, "/api/v1/status/queues", answer(count(admin.QueueStatuses))},
		{get, "/api/v1/status/queues/:queue", answer(count(admin.QueueStatus))},
		{get, "/api/v1/status/queues/:queue/messages", answer(admin.QueueMessages)},
		{get, "/api/v1/status/dispatcher", answer(count(admin.DispatcherStatus))},
		{get, "/api/v1/status/sweeps", answer(admin.Sweeps)},
		{get, "/api/v1/dlq", answer(admin.ListDeadLetters)},
		{remove, "/api/v1/dlq", answer(admin.PurgeDeadLetters)},
		{post, "/api/v1/dlq/redrive", answer(admin.Redrive)},
		{get, "/api/v1/messages/:partitionId/:transactionId", answer(admin.ShowMessage)},
		{remove, "/api/v1/messages/:partitionId/:transactionId", answer(admin.DeleteMessage)},
		{post, "/api/v1/messages/:partitionId/:transactionId/dlq", answer(admin.DeadLetterMessage)},
		{post, "/api/v1/messages/:partitionId/:transactionId/retry", answer(admin.RetryMessage)},
		{post, "/api/v1/traces", answer(admin.AddTrace)},
		{get, "/api/v1/traces/names", answer(admin.TraceNames)},
		{get, "/api/v1/traces/by-name/:name", answer(admin.NamedTraces)},
		{get, "/api/v1/traces/:partitionId/:transactionId", answer(admin.MessageTraces)},
	}...)
}

// internalRoutes are the routes that http.internal_addr serves too.
func (s *Server) internalRoutes() []Route {
	return append(s.probes(s.deps.Listener, s.deps.Popper.Waiting), Route{http.MethodGet, "/metrics/prometheus", s.prometheus})
}

// probes are the routes that a server answers from its start on.
func (s *Server) probes(listener func() ListenerState, waiting func() int) []Route {
	health := s.health(listener, waiting)
	return []Route{
		{http.MethodGet, "/livez", live},
		{http.MethodHead, "/livez", live},
		{http.MethodGet, "/readyz", s.ready},
		{http.MethodHead, "/readyz", s.ready},
		{http.MethodGet, "/health", health},
		{http.MethodHead, "/health", health},
	}
}

func (s *Server) planes() (*dataplane.Handlers, *adminplane.Handlers) {
	d := s.deps
	bodies := wire.BodyReader{MaxBytes: s.cfg.MaxBodyBytes, Budget: s.inflight}
	limits := dataplane.Limits{Items: s.cfg.MaxItems, Partitions: s.cfg.MaxPartitions, Acks: s.cfg.MaxAcks}
	data := &dataplane.Handlers{Verbs: d.Verbs, Popper: d.Popper, Meter: s.start.Metrics, Defaults: d.Defaults, Bodies: bodies, Limits: limits}
	admin := &adminplane.Handlers{
		Acker: d.Verbs, Waiting: d.Popper, Catalog: d.Catalog, GroupWriter: d.GroupWriter, GroupReader: d.GroupReader,
		Resources: d.Resources, DeadLetters: d.DeadLetters, Traces: d.Traces, Listener: d.Listener, Inbox: d.Inbox,
		Meter: s.start.Metrics, Defaults: d.Defaults, Bodies: bodies,
	}
	return data, admin
}
