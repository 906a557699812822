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
	handler      echo.HandlerFunc
}

// routeTable is the whole API on one screen.
func (s *Server) routeTable() []Route {
	const get, post, remove = http.MethodGet, http.MethodPost, http.MethodDelete
	data, admin := s.planes()
	answer, count, change := wire.JSON, s.statistics.limit, s.audited
	return append(s.probes(s.deps.Listener, s.deps.Popper.Waiting), []Route{
		{get, "/metrics/prometheus", s.prometheus},
		{get, "/openapi.json", s.openapi},

		{post, "/api/v1/push", data.Push},
		{get, "/api/v1/pop", data.PopTagged},
		{get, "/api/v1/pop/queue/:queue", data.PopQueue},
		{get, "/api/v1/pop/queue/:queue/partition/:partition", data.PopPartition},
		{post, "/api/v1/ack", data.Ack},
		{post, "/api/v1/ack/batch", data.AckBatch},
		{post, "/api/v1/transaction", data.Transaction},
		{post, "/api/v1/lease/:leaseId/extend", answer(data.Extend)},

		{post, "/api/v1/configure", change(audit.ConfigureQueue, admin.Configure)},
		{remove, "/api/v1/resources/queues/:queue", change(audit.DeleteQueue, admin.DeleteQueue)},
		{get, "/api/v1/consumer-groups", answer(count(admin.ListGroups))},
		{get, "/api/v1/consumer-groups/lagging", answer(count(admin.LaggingGroups))},
		{get, "/api/v1/consumer-groups/:group", answer(count(admin.ShowGroup))},
		{remove, "/api/v1/consumer-groups/:group", change(audit.DeleteGroup, admin.DeleteGroup)},
		{remove, "/api/v1/consumer-groups/:group/queues/:queue", change(audit.DeleteGroup, admin.DeleteGroupOfQueue)},
		{post, "/api/v1/consumer-groups/:group/subscription", change(audit.SetSubscriptionStart, admin.SetSubscriptionStart)},
		{post, "/api/v1/consumer-groups/:group/queues/:queue/seek", change(audit.SeekGroup, admin.SeekQueue)},
		{post, "/api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/seek", change(audit.SeekGroup, admin.SeekPartition)},
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
		{remove, "/api/v1/dlq", change(audit.PurgeDeadLetters, admin.PurgeDeadLetters)},
		{post, "/api/v1/dlq/redrive", change(audit.RedriveDeadLetters, admin.Redrive)},
		{get, "/api/v1/messages/:partitionId/:transactionId", answer(admin.ShowMessage)},
		{remove, "/api/v1/messages/:partitionId/:transactionId", change(audit.DeleteMessage, admin.DeleteMessage)},
		{post, "/api/v1/messages/:partitionId/:transactionId/dlq", change(audit.DeadLetterMessage, admin.DeadLetterMessage)},
		{post, "/api/v1/messages/:partitionId/:transactionId/retry", change(audit.RetryMessage, admin.RetryMessage)},
		{post, "/api/v1/traces", answer(admin.AddTrace)},
		{get, "/api/v1/traces/names", answer(admin.TraceNames)},
		{get, "/api/v1/traces/by-name/:name", answer(admin.NamedTraces)},
		{get, "/api/v1/traces/:partitionId/:transactionId", answer(admin.MessageTraces)},
		{get, "/api/v1/audit", answer(admin.ListAudit)},
	}...)
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
		Transactor: d.Verbs, Waiting: d.Popper, Catalog: d.Catalog, GroupWriter: d.GroupWriter, GroupReader: d.GroupReader,
		Resources: d.Resources, DeadLetters: d.DeadLetters, Traces: d.Traces, Audit: d.Audit, Listener: d.Listener, Inbox: d.Inbox,
		Meter: s.start.Metrics, Defaults: d.Defaults, Bodies: bodies,
	}
	return data, admin
}
