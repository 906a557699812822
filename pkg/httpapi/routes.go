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

// Routes returns the route table.
func (s *Server) Routes() []Route { return s.routes }

// routeTable is the whole API on one screen.
func (s *Server) routeTable() []Route {
	const get, head, post, remove = http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete
	data, admin := s.planes()
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
		{post, "/api/v1/lease/:leaseId/extend", data.Extend},

		{post, "/api/v1/configure", admin.Configure},
		{remove, "/api/v1/resources/queues/:queue", admin.DeleteQueue},
		{get, "/api/v1/consumer-groups", admin.ListGroups},
		{get, "/api/v1/consumer-groups/lagging", admin.LaggingGroups},
		{get, "/api/v1/consumer-groups/:group", admin.ShowGroup},
		{remove, "/api/v1/consumer-groups/:group", admin.DeleteGroup},
		{remove, "/api/v1/consumer-groups/:group/queues/:queue", admin.DeleteGroupOfQueue},
		{post, "/api/v1/consumer-groups/:group/subscription", admin.MoveSubscription},
		{post, "/api/v1/consumer-groups/:group/queues/:queue/seek", admin.SeekQueue},
		{post, "/api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/seek", admin.SeekPartition},
		{get, "/api/v1/resources/queues", admin.Queues},
		{get, "/api/v1/resources/queues/:queue", admin.Queue},
		{get, "/api/v1/resources/namespaces", admin.Namespaces},
		{get, "/api/v1/resources/tasks", admin.Tasks},
		{get, "/api/v1/resources/overview", admin.Overview},
		{get, "/api/v1/messages", admin.Messages},
		{get, "/api/v1/status/queues", admin.QueueStatuses},
		{get, "/api/v1/status/queues/:queue", admin.QueueStatus},
		{get, "/api/v1/status/queues/:queue/messages", admin.QueueMessages},
		{get, "/api/v1/status/dispatcher", admin.DispatcherStatus},
		{get, "/api/v1/status/sweeps", admin.Sweeps},
		{get, "/api/v1/dlq", admin.ListDeadLetters},
		{remove, "/api/v1/dlq", admin.PurgeDeadLetters},
		{post, "/api/v1/dlq/redrive", admin.Redrive},
		{get, "/api/v1/messages/:partitionId/:transactionId", admin.ShowMessage},
		{remove, "/api/v1/messages/:partitionId/:transactionId", admin.DeleteMessage},
		{post, "/api/v1/messages/:partitionId/:transactionId/dlq", admin.DeadLetterMessage},
		{post, "/api/v1/messages/:partitionId/:transactionId/retry", admin.RetryMessage},
		{post, "/api/v1/traces", admin.AddTrace},
		{get, "/api/v1/traces/names", admin.TraceNames},
		{get, "/api/v1/traces/by-name/:name", admin.NamedTraces},
		{get, "/api/v1/traces/:partitionId/:transactionId", admin.MessageTraces},
	}
}

func (s *Server) planes() (*dataplane.Handlers, *adminplane.Handlers) {
	d := s.deps
	bodies := wire.BodyReader{MaxBytes: s.cfg.MaxBodyBytes}
	data := &dataplane.Handlers{Verbs: d.Verbs, Popper: d.Popper, Meter: d.Metrics, Defaults: d.Defaults, Bodies: bodies}
	admin := &adminplane.Handlers{
		Acker: d.Verbs, Waiting: d.Popper, Catalog: d.Catalog, GroupVerbs: d.GroupVerbs, GroupReader: d.GroupReader,
		Resources: d.Resources, DeadLetters: d.Letters, Traces: d.Traces, Listener: d.Listener, Inbox: d.Inbox,
		Meter: d.Metrics, Defaults: d.Defaults, Bodies: bodies,
	}
	return data, admin
}

// cors adds the CORS headers to every answer and answers OPTIONS.
func cors(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		h := c.Response().Header()
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE, OPTIONS")
		h.Set("Access-Control-Allow-Headers", "Content-Type, Authorization")
		if c.Request().Method == http.MethodOptions {
			h.Set("Access-Control-Max-Age", "86400")
			return c.NoContent(http.StatusNoContent)
		}
		return next(c)
	}
}
