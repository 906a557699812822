package httpapi

import (
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/httpapi/adminplane"
	"github.com/belfry-mq/belfry/pkg/httpapi/dataplane"
	"github.com/belfry-mq/belfry/pkg/httpapi/deadplane"
	"github.com/belfry-mq/belfry/pkg/httpapi/historyplane"
	"github.com/belfry-mq/belfry/pkg/httpapi/listplane"
	"github.com/belfry-mq/belfry/pkg/httpapi/liveplane"
	"github.com/belfry-mq/belfry/pkg/httpapi/producerplane"
	"github.com/belfry-mq/belfry/pkg/httpapi/progressplane"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
)

// Route is one row of the route table.
type Route struct {
	Method, Path string
	// Right is what a request needs.
	Right   Right
	handler echo.HandlerFunc
}

// The methods of routes.
const get, post, patch, remove = http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete

// Routes returns the route table, for tests that walk it.
func (s *Server) Routes() []Route { return s.routeTable() }

// routeTable is the whole API.
func (s *Server) routeTable() []Route {
	data, admin := s.planes()
	return slices.Concat(s.internalRoutes(), s.clientRoutes(data), s.operatorRoutes(admin), s.maintenanceRoutes(admin), s.asideRoutes(), s.listRoutes(), s.historyRoutes(), s.progressRoutes(), s.streamRoutes(data), s.dashboardRoutes())
}

// progressRoutes show how far groups are.
func (s *Server) progressRoutes() []Route {
	shown := &progressplane.Handlers{Groups: s.deps.GroupReader, Progress: s.deps.Progress, Holders: &s.holders}
	answer, count := wire.JSON, s.statistics.limit
	return []Route{
		{get, "/api/v1/consumer-groups", Read | Granted, answer(count(shown.ListGroups))},
		{get, "/api/v1/consumer-groups/lagging", Read | Granted, answer(count(shown.LaggingGroups))},
		{get, "/api/v1/consumer-groups/:group", Read | Granted, answer(count(shown.ShowGroup))},
		{get, "/api/v1/resources/queues/:queue/groups", Read | Granted, answer(shown.GroupsOfQueue)},
		{get, "/api/v1/resources/queues/:queue/partitions", Read | Granted, answer(shown.Partitions)},
		{get, "/api/v1/consumer-groups/:group/queues/:queue", Read | Granted, answer(shown.ShowGroupOfQueue)},
		{get, "/api/v1/consumer-groups/:group/queues/:queue/partitions", Read | Granted, answer(shown.Places)},
		{get, "/api/v1/consumer-groups/:group/queues/:queue/seek", Read | Granted, answer(shown.PreviewSeek)},
	}
}

// streamRoutes answer with Server-Sent Events.
func (s *Server) streamRoutes(data *dataplane.Handlers) []Route {
	happens := &liveplane.Handlers{Events: s.deps.Events, Streams: s.streams(), SeesAudit: s.seesAudit}
	return []Route{
		{get, "/api/v1/events", Read | Granted, happens.Watch},
		{get, "/api/v1/sse/queue/:queue", Write | Granted | Changes, data.StreamQueue},
	}
}

// streams are what all streams share.
func (s *Server) streams() wire.Streams {
	shared := wire.Streams{Ending: s.ending, NextRevocation: func() <-chan struct{} { return nil }, WriteTimeout: s.cfg.WriteTimeout}
	if s.deps.Auth != nil {
		shared.NextRevocation = s.deps.Auth.NextRevocation
	}
	return shared
}

// clientRoutes are the routes of producers and consumers.
func (s *Server) clientRoutes(data *dataplane.Handlers) []Route {
	answer := wire.JSON
	return []Route{
		{get, "/openapi.json", Public, s.openapi},
		{get, "/api/v1/whoami", AnyRole | Granted, answer(s.whoami)},

		{post, "/api/v1/push", Write | Granted | MessagesBody, data.Push},
		{get, "/api/v1/pop", Write | Granted | Changes, data.PopTagged},
		{get, "/api/v1/pop/queue/:queue", Write | Granted | Changes, data.PopQueue},
		{get, "/api/v1/pop/queue/:queue/partition/:partition", Write | Granted | Changes, data.PopPartition},
		{post, "/api/v1/ack", Write | Granted | MessagesBody, data.Ack},
		{post, "/api/v1/ack/batch", Write | Granted | MessagesBody, data.AckBatch},
		{post, "/api/v1/transaction", Write | Granted | MessagesBody, data.Transaction},
		{post, "/api/v1/lease/:leaseId/extend", Write | Granted, answer(data.Extend)},

		{post, "/streams/v1/queries", Write | Granted, s.confirmed(data.RegisterQuery)},
		{post, "/streams/v1/cycle", Write | Granted | MessagesBody, data.Cycle},
		{post, "/streams/v1/state/get", Read | Granted | KeysBody, answer(data.StreamState)},
	}
}

// operatorRoutes are the routes of operators and dashboards.
func (s *Server) operatorRoutes(admin *adminplane.Handlers) []Route {
	answer, count, change := wire.JSON, s.statistics.limit, s.audited
	return []Route{
		{post, "/api/v1/configure", Write | Granted, change(audit.ConfigureQueue, admin.Configure)},
		{patch, "/api/v1/resources/queues/:queue", Write | Granted, change(audit.ConfigureQueue, admin.ChangeQueue)},
		{remove, "/api/v1/resources/queues/:queue", Administer | Granted, change(audit.DeleteQueue, admin.DeleteQueue)},
		{remove, "/api/v1/consumer-groups/:group", Administer, change(audit.DeleteGroup, admin.DeleteGroup)},
		{remove, "/api/v1/consumer-groups/:group/queues/:queue", Administer | Granted, change(audit.DeleteGroup, admin.DeleteGroupOfQueue)},
		{post, "/api/v1/consumer-groups/:group/subscription", Write, change(audit.SetSubscriptionStart, admin.SetSubscriptionStart)},
		{post, "/api/v1/consumer-groups/:group/queues/:queue/seek", Write | Granted, change(audit.SeekGroup, admin.SeekQueue)},
		{post, "/api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/seek", Write | Granted, change(audit.SeekGroup, admin.SeekPartition)},
		{get, "/api/v1/explain", Read | Granted, answer(admin.Explain)},
		{get, "/api/v1/resources/queues", Read | Granted, answer(count(admin.Queues))},
		{get, "/api/v1/resources/queues/:queue", Read | Granted, answer(count(admin.Queue))},
		{post, "/api/v1/resources/queues/:queue/pause", Write | Granted, change(audit.PauseDelivery, admin.PauseQueue(true))},
		{post, "/api/v1/resources/queues/:queue/resume", Write | Granted, change(audit.ResumeDelivery, admin.PauseQueue(false))},
		{post, "/api/v1/resources/queues/:queue/partitions/:partition/pause", Write | Granted, change(audit.PauseDelivery, admin.PausePartition(true))},
		{post, "/api/v1/resources/queues/:queue/partitions/:partition/resume", Write | Granted, change(audit.ResumeDelivery, admin.PausePartition(false))},
		{post, "/api/v1/consumer-groups/:group/queues/:queue/pause", Write | Granted, change(audit.PauseDelivery, admin.PauseGroup(true))},
		{post, "/api/v1/consumer-groups/:group/queues/:queue/resume", Write | Granted, change(audit.ResumeDelivery, admin.PauseGroup(false))},
		{get, "/api/v1/resources/namespaces", Read | Granted, answer(count(admin.Namespaces))},
		{get, "/api/v1/resources/tasks", Read | Granted, answer(count(admin.Tasks))},
		{get, "/api/v1/resources/overview", Read | Granted, answer(count(admin.Overview))},
		{get, "/api/v1/messages", Read | Granted, answer(admin.Messages)},
		{get, "/api/v1/status/queues", Read | Granted, answer(count(admin.QueueStatuses))},
		{get, "/api/v1/status/queues/:queue", Read | Granted, answer(count(admin.QueueStatus))},
		{get, "/api/v1/status/queues/:queue/messages", Read | Granted, answer(admin.QueueMessages)},
		{get, "/api/v1/status/dispatcher", Read, answer(count(admin.DispatcherStatus))},
		{get, "/api/v1/status/sweeps", Read | Granted, answer(admin.Sweeps)},
		{get, "/api/v1/messages/:partitionId/:transactionId", Read | Granted, answer(admin.ShowMessage)},
		{remove, "/api/v1/messages/:partitionId/:transactionId", Write | Granted, change(audit.DeleteMessage, admin.DeleteMessage)},
		{post, "/api/v1/messages/:partitionId/:transactionId/dlq", Write | Granted, change(audit.DeadLetterMessage, admin.DeadLetterMessage)},
		{post, "/api/v1/messages/:partitionId/:transactionId/retry", Write | Granted, change(audit.RetryMessage, admin.RetryMessage)},
		{post, "/api/v1/traces", Write | Granted | MessagesBody, answer(admin.AddTrace)},
		{get, "/api/v1/traces/names", Read | Granted, answer(admin.TraceNames)},
		{get, "/api/v1/traces/by-name/:name", Read | Granted, answer(admin.NamedTraces)},
		{get, "/api/v1/traces/:partitionId/:transactionId", Read | Granted, answer(admin.MessageTraces)},
		{get, "/api/v1/streams", Read | Granted, answer(admin.ListStreams)},
		{remove, "/api/v1/streams/:id", Administer | Granted, change(audit.DeleteStream, admin.DeleteStream)},
		{post, "/internal/api/notify", Administer, answer(admin.Notify)},
		{get, "/api/v1/system/shared-state", Administer, answer(admin.SharedState)},
		{get, "/internal/api/shared-state/stats", Administer, answer(admin.SharedState)},
		{get, "/internal/api/inter-instance/stats", Administer, answer(admin.SharedState)},
		{post, "/api/v1/migration/test-connection", Administer, answer(admin.Migration)},
		{post, "/api/v1/migration/start", Administer, answer(admin.Migration)},
		{get, "/api/v1/migration/status", Administer, answer(admin.Migration)},
		{post, "/api/v1/migration/validate", Administer, answer(admin.Migration)},
		{post, "/api/v1/migration/reset", Administer, answer(admin.Migration)},
		{get, "/api/v1/audit", Administer | Granted, answer(admin.ListAudit)},
		{get, "/api/v1/doctor", Administer, answer(count(admin.Examine))},
	}
}

// listRoutes read a bounded number of rows. They share the limit of the other statistics.
func (s *Server) listRoutes() []Route {
	lists, count := &listplane.Handlers{Queues: s.deps.Queues, Problems: s.deps.Problems}, s.statistics.limit
	return []Route{
		{get, "/api/v1/queues", Read | Granted, wire.JSON(count(lists.ListQueues))},
		{get, "/api/v1/tags", Read, wire.JSON(count(lists.ListTags))},
		{get, "/api/v1/problems", Read | Granted, wire.JSON(count(lists.ListProblems))},
	}
}

// maintenanceRoutes show and turn the switches for maintenance.
func (s *Server) maintenanceRoutes(admin *adminplane.Handlers) []Route {
	const path = "/api/v1/system/maintenance"
	return []Route{
		{get, path, Administer, wire.JSON(admin.Maintenance)},
		{post, path, Administer, s.audited(audit.SetPushMaintenance, admin.SetMaintenance)},
		{get, path + "/pop", Administer, wire.JSON(admin.PopMaintenance)},
		{post, path + "/pop", Administer, s.audited(audit.SetPopMaintenance, admin.SetPopMaintenance)},
		{get, path + "/rejected", Administer, wire.JSON(admin.Rejected)},
		{post, path + "/rejected/retry", Administer, s.audited(audit.RetryRejected, admin.RetryRejected)},
		{http.MethodDelete, path + "/rejected", Administer, s.audited(audit.DiscardRejected, admin.DiscardRejected)},
		{get, "/api/v1/status/buffers", Read, wire.JSON(admin.Buffers)},
	}
}

// asideRoutes show the messages that no consumer receives: dead letters, and rejected rows of the inbox. They
// also show the attached tables, which write to the inbox.
func (s *Server) asideRoutes() []Route {
	bodies := s.bodies()
	dead := &deadplane.Handlers{Letters: s.deps.DeadLetters, Bodies: bodies, Streams: s.streams(), Report: s.reportStream}
	sql := &producerplane.Handlers{Attachments: s.deps.Attachments, Rejections: s.deps.Rejections, Bodies: bodies}
	return []Route{
		{get, "/api/v1/dlq", Read | Granted, wire.JSON(dead.ListDeadLetters)},
		{get, "/api/v1/dlq/summary", Read | Granted, wire.JSON(s.statistics.limit(dead.Summary))},
		{remove, "/api/v1/dlq", Administer | Granted, s.audited(audit.PurgeDeadLetters, dead.PurgeDeadLetters)},
		{post, "/api/v1/dlq/redrive", Write | Granted, s.audited(audit.RedriveDeadLetters, dead.Redrive)},
		{post, "/api/v1/dlq/redrive/stream", Write | Granted, s.auditedStream(audit.RedriveDeadLetters, dead.StreamRedrive)},
		{get, "/api/v1/attachments", Read | Granted, wire.JSON(s.statistics.limit(sql.ListAttachments))},
		{get, "/api/v1/inbox/rejected", Read | Granted, wire.JSON(s.statistics.limit(sql.ListRejected))},
		{post, "/api/v1/inbox/rejected/retry", Write | Granted, s.audited(audit.RetryInbox, sql.RetryRejected)},
		{remove, "/api/v1/inbox/rejected", Administer | Granted, s.audited(audit.DiscardInbox, sql.DiscardRejected)},
	}
}

// historyRoutes show what happened. Those without Granted show figures of processes or of the database.
func (s *Server) historyRoutes() []Route {
	shown := &historyplane.Handlers{History: s.deps.History, Live: s.deps.Live}
	read := func(path string, right Right, answer func(p *wire.Params) (any, error)) Route {
		return Route{get, path, right, wire.JSON(s.statistics.limit(answer))}
	}
	return []Route{
		{get, "/metrics", Public, wire.JSON(s.jsonMetrics)},
		read("/api/v1/status", Read|Granted, shown.Status),
		read("/api/v1/status/analytics", Read|Granted, shown.Analytics),
		read("/api/v1/analytics/system-metrics", Read, shown.SystemMetrics),
		read("/api/v1/analytics/worker-metrics", Read|Granted, shown.WorkerMetrics),
		read("/api/v1/analytics/queue-lag", Read|Granted, shown.QueueLag),
		read("/api/v1/analytics/queue-ops", Read|Granted, shown.QueueOps),
		read("/api/v1/analytics/queue-parked-replicas", Read, shown.ParkedReplicas),
		read("/api/v1/analytics/retention", Read|Granted, shown.Retention),
		read("/api/v1/analytics/postgres-stats", Read, shown.PostgresStats),
		{post, "/api/v1/stats/refresh", Administer, wire.JSON(shown.Refresh)},
	}
}

// dashboardRoutes are the pages for people.
func (s *Server) dashboardRoutes() []Route {
	if s.deps.Dashboard == nil {
		return nil
	}
	pages := echo.WrapHandler(s.deps.Dashboard)
	serve := func(c echo.Context) error {
		wire.CountReads(c) // of the requests that the page sends to the API
		return pages(c)
	}
	routes := []Route{{post, "/ui/*", Public, serve}}
	for _, path := range []string{"/", "/ui", "/ui/*"} {
		routes = append(routes, Route{get, path, Public, serve}, Route{http.MethodHead, path, Public, serve})
	}
	return routes
}

// internalRoutes are the routes that http.internal_addr serves too.
func (s *Server) internalRoutes() []Route {
	return append(s.probes(s.deps.Listener, s.deps.Popper.Waiting, s.deps.Switches), Route{http.MethodGet, "/metrics/prometheus", Public, s.prometheus})
}

// probes are the routes that a server answers from its start on.
func (s *Server) probes(listener func() ListenerState, waiting func() int, switches adminplane.Switches) []Route {
	health := s.health(listener, waiting, switches)
	return []Route{
		{http.MethodGet, "/livez", Public, live},
		{http.MethodHead, "/livez", Public, live},
		{http.MethodGet, "/readyz", Public, s.ready},
		{http.MethodHead, "/readyz", Public, s.ready},
		{http.MethodGet, "/health", Public, health},
		{http.MethodHead, "/health", Public, health},
	}
}

func (s *Server) bodies() wire.BodyReader {
	return wire.BodyReader{MaxBytes: s.cfg.MaxBodyBytes, Timeout: s.cfg.BodyTimeout, AnyJSON: s.cfg.AllowAnyJSON}
}

func (s *Server) planes() (*dataplane.Handlers, *adminplane.Handlers) {
	d := s.deps
	bodies := s.bodies()
	limits := dataplane.Limits{Items: s.cfg.MaxItems, Partitions: s.cfg.MaxPartitions, Acks: s.cfg.MaxAcks}
	data := &dataplane.Handlers{Pusher: d.Pusher, Verbs: d.Verbs, Popper: d.Popper, Owners: d.Owners, Queries: d.Streams, Meter: s.start.Metrics, Defaults: d.Defaults, Bodies: bodies, Limits: limits,
		InFlight: s.sent, Holders: &s.holders, Streams: s.streams(), Report: s.reportStream}
	admin := &adminplane.Handlers{
		Transactor: d.Verbs, Waiting: d.Popper, Catalog: d.Catalog, GroupWriter: d.GroupWriter,
		Resources: d.Resources, DeadLetters: d.DeadLetters, Traces: d.Traces, Audit: d.Audit, Owners: d.Owners, Streams: d.Streams, Switches: d.Switches, Spool: d.Spool, Explainer: d.Explainer, Doctor: d.Doctor, Listener: d.Listener, Inbox: d.Inbox, Flushes: d.Flushes,
		Meter: s.start.Metrics, Defaults: d.Defaults, Bodies: bodies,
	}
	return data, admin
}
