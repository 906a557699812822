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
	const get, head, post, remove = http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete
	data, admin := s.planes()
	answer := wire.JSON
	return []Route{
		{get, "/health", s.health},
		{head, "/health", s.health},
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

		{post, "/api/v1/configure", answer(admin.Configure)},
		{remove, "/api/v1/resources/queues/:queue", answer(admin.DeleteQueue)},
		{get, "/api/v1/consumer-groups", answer(admin.ListGroups)},
		{get, "/api/v1/consumer-groups/lagging", answer(admin.LaggingGroups)},
		{get, "/api/v1/consumer-groups/:group", answer(admin.ShowGroup)},
		{remove, "/api/v1/consumer-groups/:group", answer(admin.DeleteGroup)},
		{remove, "/api/v1/consumer-groups/:group/queues/:queue", answer(admin.DeleteGroupOfQueue)},
		{post, "/api/v1/consumer-groups/:group/subscription", answer(admin.SetSubscriptionStart)},
		{post, "/api/v1/consumer-groups/:group/queues/:queue/seek", answer(admin.SeekQueue)},
		{post, "/api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/seek", answer(admin.SeekPartition)},
		{get, "/api/v1/resources/queues", answer(admin.Queues)},
		{get, "/api/v1/resources/queues/:queue", answer(admin.Queue)},
		{get, "/api/v1/resources/namespaces", answer(admin.Namespaces)},
		{get, "/api/v1/resources/tasks", answer(admin.Tasks)},
		{get, "/api/v1/resources/overview", answer(admin.Overview)},
		{get, "/api/v1/messages", answer(admin.Messages)},
		{get, "/api/v1/status/queues", answer(admin.QueueStatuses)},
		{get, "/api/v1/status/queues/:queue", answer(admin.QueueStatus)},
		{get, "/api/v1/status/queues/:queue/messages", answer(admin.QueueMessages)},
		{get, "/api/v1/status/dispatcher", answer(admin.DispatcherStatus)},
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
	}
}

func (s *Server) planes() (*dataplane.Handlers, *adminplane.Handlers) {
	d := s.deps
	bodies := wire.BodyReader{MaxBytes: s.cfg.MaxBodyBytes}
	limits := dataplane.Limits{Items: s.cfg.MaxItems, Partitions: s.cfg.MaxPartitions, Acks: s.cfg.MaxAcks}
	data := &dataplane.Handlers{Verbs: d.Verbs, Popper: d.Popper, Meter: d.Metrics, Defaults: d.Defaults, Bodies: bodies, Limits: limits}
	admin := &adminplane.Handlers{
		Acker: d.Verbs, Waiting: d.Popper, Catalog: d.Catalog, GroupWriter: d.GroupWriter, GroupReader: d.GroupReader,
		Resources: d.Resources, DeadLetters: d.DeadLetters, Traces: d.Traces, Listener: d.Listener, Inbox: d.Inbox,
		Meter: d.Metrics, Defaults: d.Defaults, Bodies: bodies,
	}
	return data, admin
}
