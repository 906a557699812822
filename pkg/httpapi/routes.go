package httpapi

import (
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/httpapi/data"
	"github.com/belfry-mq/belfry/pkg/httpapi/deadletters"
	"github.com/belfry-mq/belfry/pkg/httpapi/flow"
	"github.com/belfry-mq/belfry/pkg/httpapi/lists"
	"github.com/belfry-mq/belfry/pkg/httpapi/observe"
	"github.com/belfry-mq/belfry/pkg/httpapi/operate"
	"github.com/belfry-mq/belfry/pkg/httpapi/queen"
	"github.com/belfry-mq/belfry/pkg/httpapi/repair"
	"github.com/belfry-mq/belfry/pkg/httpapi/schedules"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
)

// Route is one row of the route table.
type Route struct {
	Method, Path string
	// Right is the right that a request needs.
	Right   Right
	handler echo.HandlerFunc
}

// The methods of routes.
const get, post, put, patch, remove = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete

// Routes returns the route table with all routes of the API.
func (s *Server) Routes() []Route {
	observes := s.observes()
	return slices.Concat(s.internalRoutes(), s.dataRoutes(), s.operateRoutes(), s.messageRoutes(observes), s.deadLetterRoutes(), s.scheduleRoutes(), s.flowRoutes(), s.blockedRoutes(),
		s.compressed(s.listRoutes()), s.compressed(s.observeRoutes(observes)), s.compressed(s.historyRoutes(observes)), s.queenRoutes(observes),
		s.dashboardRoutes())
}

// dataRoutes returns the routes of producers and consumers.
func (s *Server) dataRoutes() []Route {
	d, answer := s.deps, wire.JSON
	serves := &data.Handlers{
		Pusher: d.Pusher, Verbs: d.Verbs, Popper: d.Popper, Owners: d.Owners, Queries: d.Streams, Traces: d.Traces, Meter: s.start.Metrics, Defaults: d.Defaults, Bodies: s.bodies(),
		Limits:   data.Limits{Items: s.cfg.MaxItems, Partitions: s.cfg.MaxPartitions, Acks: s.cfg.MaxAcks},
		InFlight: s.start.Metrics.sent, Holders: &s.holders, Streams: s.streams(), Report: s.reportStream,
	}
	return []Route{
		{post, "/api/v1/push", Write | Granted | MessagesBody, serves.Push},
		{get, "/api/v1/pop", Write | Granted | Changes, serves.PopTagged},
		{get, "/api/v1/pop/queue/:queue", Write | Granted | Changes, serves.PopQueue},
		{get, "/api/v1/pop/queue/:queue/partition/:partition", Write | Granted | Changes, serves.PopPartition},
		{get, "/api/v1/sse/queue/:queue", Write | Granted | Changes, serves.StreamQueue},
		{post, "/api/v1/ack", Write | Granted | MessagesBody, serves.Ack},
		{post, "/api/v1/ack/batch", Write | Granted | MessagesBody, serves.AckBatch},
		{post, "/api/v1/transaction", Write | Granted | MessagesBody, serves.Transaction},
		{post, "/api/v1/lease/:leaseId/extend", Write | Granted, answer(serves.Extend)},
		{post, "/api/v1/traces", Write | Granted | MessagesBody, answer(serves.AddTrace)},
		{post, "/streams/v1/queries", Write | Granted, s.confirmed(serves.RegisterQuery)},
		{post, "/streams/v1/cycle", Write | Granted | MessagesBody, serves.Cycle},
		{post, "/streams/v1/state/get", Read | Granted | KeysBody, answer(serves.StreamState)},
	}
}

// operateRoutes returns the routes with which operators change state. Each request gets a row in the audit.
func (s *Server) operateRoutes() []Route {
	d, change := s.deps, s.audited
	serves := &operate.Handlers{
		Transactor: d.Verbs, Catalog: d.Catalog, GroupWriter: d.GroupWriter, DeadLetters: d.DeadLetters, Rejections: d.Rejections, Owners: d.Owners, Queries: d.Streams,
		Switches: d.Switches, Spool: d.Spool, Meter: s.start.Metrics, Defaults: d.Defaults, Bodies: s.bodies(), Streams: s.streams(), Report: s.reportStream,
		Rights: d.Rights, Jobs: d.Jobs,
	}
	mends := &repair.Handlers{Messages: d.DeadLetters, Transactor: d.Verbs, Owners: d.Owners, Meter: s.start.Metrics, Bodies: s.bodies()}
	if d.Auth != nil {
		serves.Verify = d.Auth.Verify
	}
	return []Route{
		{get, "/api/v1/whoami", AnyRole | Granted, wire.JSON(serves.Whoami)},
		{get, "/api/v1/rights", Administer, wire.JSON(serves.ListRights)},
		{get, "/api/v1/audit/:id/undo", Administer | Granted, wire.JSON(serves.PreviewUndo)},
		{post, "/api/v1/audit/:id/undo", Administer | Granted, change("", serves.Undo)},
		{post, "/api/v1/tokens", Administer, change(audit.CreateToken, serves.CreateToken)},
		{post, "/api/v1/tokens/revoke", Administer, change(audit.RevokeToken, serves.RevokeToken)},
		{post, "/api/v1/sql-grants", Administer, change(audit.GiveGrant, serves.ChangeGrant(false))},
		{post, "/api/v1/sql-grants/revoke", Administer, change(audit.RevokeGrant, serves.ChangeGrant(true))},
		{post, "/api/v1/configure", Write | Granted, change(audit.ConfigureQueue, serves.Configure)},
		{patch, "/api/v1/resources/queues/:queue", Write | Granted, change(audit.ConfigureQueue, serves.ChangeQueue)},
		{remove, "/api/v1/resources/queues/:queue", Administer | Granted, change(audit.DeleteQueue, serves.DeleteQueue)},
		{get, "/api/v1/pauses", Read | Granted, wire.JSON(serves.ListPauses)},
		{post, "/api/v1/resources/queues/:queue/pause", Write | Granted, change(audit.PauseDelivery, serves.PauseQueue(true))},
		{post, "/api/v1/resources/queues/:queue/resume", Write | Granted, change(audit.ResumeDelivery, serves.PauseQueue(false))},
		{post, "/api/v1/resources/queues/:queue/partitions/:partition/pause", Write | Granted, change(audit.PauseDelivery, serves.PausePartition(true))},
		{post, "/api/v1/resources/queues/:queue/partitions/:partition/resume", Write | Granted, change(audit.ResumeDelivery, serves.PausePartition(false))},
		{remove, "/api/v1/consumer-groups/:group", Administer, change(audit.DeleteGroup, serves.DeleteGroup)},
		{remove, "/api/v1/consumer-groups/:group/queues/:queue", Administer | Granted, change(audit.DeleteGroup, serves.DeleteGroupOfQueue)},
		{post, "/api/v1/consumer-groups/:group/queues/:queue/pause", Write | Granted, change(audit.PauseDelivery, serves.PauseGroup(true))},
		{post, "/api/v1/consumer-groups/:group/queues/:queue/resume", Write | Granted, change(audit.ResumeDelivery, serves.PauseGroup(false))},
		{post, "/api/v1/consumer-groups/:group/queues/:queue/seek", Write | Granted, change(audit.SeekGroup, serves.SeekQueue)},
		{post, "/api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/seek", Write | Granted, change(audit.SeekGroup, serves.SeekPartition)},
		{patch, "/api/v1/messages/:partitionId/:transactionId", Write | Granted, change(audit.MoveMessage, mends.Move)},
		{remove, "/api/v1/messages/:partitionId/:transactionId", Write | Granted, change(audit.DeleteMessage, serves.DeleteMessage)},
		{post, "/api/v1/messages/:partitionId/:transactionId/dlq", Write | Granted, change(audit.DeadLetterMessage, serves.DeadLetterMessage)},
		{post, "/api/v1/messages/:partitionId/:transactionId/retry", Write | Granted, change(audit.RetryMessage, serves.RetryMessage)},
		{get, "/api/v1/messages/:partitionId/:transactionId/attempts", Read | Granted, wire.JSON(mends.Attempts)},
		{post, "/api/v1/messages/:partitionId/:transactionId/resend", Write | Granted | MessagesBody, change(audit.ResendMessage, mends.Resend)},
		{remove, "/api/v1/dlq", Administer | Granted, change(audit.PurgeDeadLetters, serves.PurgeDeadLetters)},
		{post, "/api/v1/dlq/purge", Administer | Granted, s.auditedStream(audit.PurgeDeadLetters, serves.PurgeToFile)},
		{get, "/api/v1/dlq/count", Read | Granted, wire.Stream(serves.CountDeadLetters)},
		{post, "/api/v1/dlq/redrive", Write | Granted, change(audit.RedriveDeadLetters, serves.Redrive)},
		{post, "/api/v1/dlq/redrive/stream", Write | Granted, s.auditedStream(audit.RedriveDeadLetters, serves.StreamRedrive)},
		{get, "/api/v1/dlq/jobs", Read | Granted, wire.JSON(serves.ListRedriveJobs)},
		{post, "/api/v1/dlq/jobs", Write | Granted, change(audit.RedriveDeadLetters, serves.StartRedriveJob)},
		{post, "/api/v1/dlq/jobs/:id/stop", Write | Granted, change(audit.StopRedrive, serves.StopRedriveJob)},
		{post, "/api/v1/inbox/rejected/retry", Write | Granted, change(audit.RetryInbox, serves.RetryInbox)},
		{remove, "/api/v1/inbox/rejected", Administer | Granted, change(audit.DiscardInbox, serves.DiscardInbox)},
		{remove, "/api/v1/streams/:id", Administer | Granted, change(audit.DeleteStream, serves.DeleteStream)},
		{post, "/api/v1/system/maintenance", Administer, change(audit.SetPushMaintenance, serves.SetMaintenance)},
		{post, "/api/v1/system/maintenance/pop", Administer, change(audit.SetPopMaintenance, serves.SetPopMaintenance)},
		{post, "/api/v1/system/maintenance/rejected/retry", Administer, change(audit.RetryRejected, serves.RetryRejected)},
		{remove, "/api/v1/system/maintenance/rejected", Administer, change(audit.DiscardRejected, serves.DiscardRejected)},
	}
}

// messageRoutes returns the routes that only read, and whose answers have payloads, data of traces, or events.
func (s *Server) messageRoutes(serves *observe.Handlers) []Route {
	answer, count := wire.JSON, s.count
	return []Route{
		{get, "/api/v1/events", Read | Granted, serves.Watch},
		{get, "/api/v1/messages/:partitionId/:transactionId", Read | Granted, answer(serves.ShowMessage)},
		{get, "/api/v1/traces/by-name/:name", Read | Granted, answer(serves.NamedTraces)},
		{get, "/api/v1/traces/:partitionId/:transactionId", Read | Granted, answer(serves.MessageTraces)},
		{get, "/api/v1/inbox/rejected", Read | Granted, count(serves.ListRejected)},
		{get, "/api/v1/system/maintenance/rejected", Administer, answer(serves.Rejected)},
	}
}

// deadLetterRoutes returns the routes of package deadletters.
func (s *Server) deadLetterRoutes() []Route {
	serves := &deadletters.Handlers{Letters: s.deps.DeadLetters, Discarder: s.deps.DeadLetters, Owners: s.deps.Owners, Totals: s.deps.Totals}
	return append(s.compressed([]Route{{get, "/api/v1/dlq/summary", Read | Granted, s.count(serves.Summary)}}), []Route{
		{get, "/api/v1/dlq", Read | Granted, repair.OrCSV(serves.List)}, // its answers have payloads
		{remove, "/api/v1/messages/:partitionId/:transactionId/dlq", Administer | Granted, s.audited(audit.PurgeDeadLetters, serves.Discard)},
	}...)
}

// scheduleRoutes returns the routes of package schedules. Their answers have payloads, so they are not compressed.
func (s *Server) scheduleRoutes() []Route {
	serves, answer, change := &schedules.Handlers{Store: s.deps.Schedules, Messages: s.deps.MessageStates, Bodies: s.bodies()}, wire.JSON, s.audited
	return []Route{
		{get, "/api/v1/schedules", Read | Granted, s.count(serves.List)},
		{get, "/api/v1/schedules/:name", Read | Granted, answer(serves.Get)},
		{put, "/api/v1/schedules/:name", Write | Granted | MessagesBody, change(audit.SetSchedule, serves.Set)},
		{remove, "/api/v1/schedules/:name", Write | Granted, change(audit.DeleteSchedule, serves.Delete)},
		{get, "/api/v1/schedules/:name/next", Read | Granted, answer(serves.Next)},
		{post, "/api/v1/schedules/:name/run", Write | Granted, change(audit.RunSchedule, serves.Run)},
		{post, "/api/v1/schedules/:name/pause", Write | Granted, change(audit.PauseSchedule, serves.Pause(true))},
		{post, "/api/v1/schedules/:name/resume", Write | Granted, change(audit.ResumeSchedule, serves.Pause(false))},
	}
}

// blockedRoutes returns the routes of partitions that are blocked for a group.
func (s *Server) blockedRoutes() []Route {
	serves := &flow.BlockHandlers{Blocks: s.deps.Catalog, Bodies: s.bodies()}
	return []Route{
		{get, "/api/v1/consumer-groups/:group/queues/:queue/blocked", Read | Granted, wire.JSON(serves.List)},
		{post, "/api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/unblock", Write | Granted, s.audited(audit.UnblockDelivery, serves.Unblock)},
	}
}

// flowRoutes returns the routes of package flow.
func (s *Server) flowRoutes() []Route {
	serves, answer, change := &flow.Handlers{Limits: s.deps.Limits, Bodies: s.bodies()}, wire.JSON, s.audited
	const ofGroup, ofQueue = "/api/v1/consumer-groups/:group/queues/:queue/limits", "/api/v1/resources/queues/:queue/limits"
	return []Route{
		{get, ofGroup, Read | Granted, answer(serves.ShowGroup)},
		{put, ofGroup, Write | Granted, change(audit.SetLimits, serves.SetGroup)},
		{remove, ofGroup, Write | Granted, change(audit.RemoveLimits, serves.RemoveGroup)},
		{get, ofQueue, Read | Granted, answer(serves.ShowQueue)},
		{put, ofQueue, Write | Granted, change(audit.SetLimits, serves.SetQueue)},
		{remove, ofQueue, Write | Granted, change(audit.RemoveLimits, serves.RemoveQueue)},
	}
}

// observeRoutes returns the other routes that only read. A route without Granted shows figures of processes or of the whole
// database. A route with count shares the limit of statistics.
func (s *Server) observeRoutes(serves *observe.Handlers) []Route {
	answer, count := wire.JSON, s.count
	return []Route{
		{get, "/openapi.json", Public, s.openapi},
		{get, "/api/v1/problems", Read | Granted, count(serves.ListProblems)},
		{get, "/api/v1/explain", Read | Granted, answer(serves.Explain)},
		{get, "/api/v1/doctor", Administer, count(serves.Examine)},
		{get, "/api/v1/audit", Administer | Granted, answer(serves.ListAudit)},
		{get, "/api/v1/resources/queues/:queue", Read | Granted, count(serves.Queue)},
		{get, "/api/v1/resources/queues/:queue/groups", Read | Granted, answer(serves.GroupsOfQueue)},
		{get, "/api/v1/resources/queues/:queue/partitions", Read | Granted, answer(serves.Partitions)},
		{get, "/api/v1/resources/namespaces", Read | Granted, count(serves.Namespaces)},
		{get, "/api/v1/resources/tasks", Read | Granted, count(serves.Tasks)},
		{get, "/api/v1/resources/overview", Read | Granted, count(serves.Overview)},
		{get, "/api/v1/status/queues", Read | Granted, count(serves.QueueStatuses)},
		{get, "/api/v1/status/queues/:queue", Read | Granted, count(serves.QueueStatus)},
		{get, "/api/v1/status/dispatcher", Read, count(serves.DispatcherStatus)},
		{get, "/api/v1/status/sweeps", Read | Granted, answer(serves.Sweeps)},
		{get, "/api/v1/consumer-groups", Read | Granted, count(serves.ListGroups)},
		{get, "/api/v1/consumer-groups/lagging", Read | Granted, count(serves.LaggingGroups)},
		{get, "/api/v1/consumer-groups/:group", Read | Granted, count(serves.ShowGroup)},
		{get, "/api/v1/consumer-groups/:group/queues/:queue", Read | Granted, answer(serves.ShowGroupOfQueue)},
		{get, "/api/v1/consumer-groups/:group/queues/:queue/partitions", Read | Granted, answer(serves.Places)},
		{get, "/api/v1/consumer-groups/:group/queues/:queue/seek", Read | Granted, answer(serves.PreviewSeek)},
		{get, "/api/v1/scale/:queue/:group", Read | Granted, answer(serves.ShowScale)},
		{get, "/api/v1/messages", Read | Granted, repair.OrCSV(serves.Messages)},
		{get, "/api/v1/traces/names", Read | Granted, answer(serves.TraceNames)},
		{get, "/api/v1/attachments", Read | Granted, count(serves.ListAttachments)},
		{get, "/api/v1/streams", Read | Granted, answer(serves.ListStreams)},
		{get, "/api/v1/system/maintenance", Administer, answer(serves.Maintenance)},
		{get, "/api/v1/system/maintenance/pop", Administer, answer(serves.PopMaintenance)},
	}
}

// listRoutes returns the routes of the lists of all queues, groups, namespaces and tasks.
func (s *Server) listRoutes() []Route {
	serves := &lists.Handlers{Totals: s.deps.Totals, Tags: s.deps.Tags, History: s.deps.Recent, Partitions: s.deps.Partitions}
	return []Route{
		{get, "/api/v1/queues", Read | Granted, wire.JSON(serves.ListQueues)},
		{get, "/api/v1/groups", Read | Granted, wire.JSON(serves.ListAllGroups)},
		{get, "/api/v1/totals", Read | Granted, wire.JSON(serves.ShowTotals)},
		{get, "/api/v1/totals/namespaces", Read | Granted, s.count(serves.ListNamespaces)},
		{get, "/api/v1/totals/tasks", Read | Granted, s.count(serves.ListTasks)},
		{get, "/api/v1/resources/queues/:queue/search", Read | Granted, s.count(serves.SearchPartitions)},
		{get, "/api/v1/tags", Read, s.count(serves.ListTags)},
	}
}

// historyRoutes returns the routes that show the figures of all instances over time.
func (s *Server) historyRoutes(serves *observe.Handlers) []Route {
	return []Route{
		{get, "/api/v1/analytics/system-metrics", Read, s.count(serves.SystemMetrics)},
		{get, "/api/v1/analytics/worker-metrics", Read | Granted, s.count(serves.WorkerMetrics)},
		{get, "/api/v1/analytics/queue-lag", Read | Granted, s.count(serves.QueueLag)},
		{get, "/api/v1/analytics/queue-ops", Read | Granted, s.count(serves.QueueOps)},
		{get, "/api/v1/analytics/retention", Read | Granted, s.count(serves.Retention)},
		{get, "/api/v1/analytics/postgres-stats", Read, s.count(serves.PostgresStats)},
	}
}

// count returns the handler of a route that shares the limit of statistics.
func (s *Server) count(answer func(*wire.Params) (any, error)) echo.HandlerFunc {
	return wire.JSON(s.statistics.Limit(answer))
}

// observes returns the handlers for the routes that only read.
func (s *Server) observes() *observe.Handlers {
	d := s.deps
	return &observe.Handlers{
		Waiting: d.Popper, Resources: d.Resources, Queues: d.Queues, Totals: d.Totals, Problems: d.Problems, Groups: d.GroupReader, Progress: d.Progress, History: d.History, Live: d.Live,
		Reader: d.DeadLetters, Traces: d.Traces, Audit: d.Audit, Owners: d.Owners, Queries: d.Streams, Attachments: d.Attachments, Rejections: d.Rejections,
		Switches: d.Switches, Spool: d.Spool, Explainer: d.Explainer, Doctor: d.Doctor, Listener: d.Listener, Inbox: d.Inbox, Flushes: d.Flushes, Meter: s.start.Metrics,
		Events: d.Events, Streams: s.streams(), SeesAudit: s.seesAudit, Holders: &s.holders,
	}
}

// queenRoutes returns the routes that exist only for clients of Queen MQ.
func (s *Server) queenRoutes(observes *observe.Handlers) []Route {
	d, answer, count := s.deps, wire.JSON, s.count
	serves := &queen.Handlers{
		Observe: observes, Catalog: d.Catalog, GroupWriter: d.GroupWriter, Resources: d.Resources, Process: s.start.Metrics.process, Pool: d.Pool, Bodies: s.bodies(),
	}
	return []Route{
		{post, "/api/v1/consumer-groups/:group/subscription", Write, s.audited(audit.SetSubscriptionStart, serves.SetSubscriptionStart)},
		{get, "/api/v1/resources/queues", Read | Granted, count(serves.Queues)},
		{get, "/api/v1/status/queues/:queue/messages", Read | Granted, answer(serves.QueueMessages)},
		{get, "/api/v1/status", Read | Granted, count(serves.Status)},
		{get, "/api/v1/status/analytics", Read | Granted, count(serves.Analytics)},
		{get, "/api/v1/status/buffers", Read, answer(serves.Buffers)},
		{get, "/api/v1/analytics/queue-parked-replicas", Read, count(serves.ParkedReplicas)},
		{post, "/api/v1/stats/refresh", Administer, answer(serves.Refresh)},
		{get, "/metrics", Public, answer(serves.Metrics)},
		{post, "/internal/api/notify", Administer, answer(serves.Notify)},
		{get, "/api/v1/system/shared-state", Administer, answer(serves.SharedState)},
		{get, "/internal/api/shared-state/stats", Administer, answer(serves.SharedState)},
		{get, "/internal/api/inter-instance/stats", Administer, answer(serves.SharedState)},
		{post, "/api/v1/migration/test-connection", Administer, answer(serves.Migration)},
		{post, "/api/v1/migration/start", Administer, answer(serves.Migration)},
		{get, "/api/v1/migration/status", Administer, answer(serves.Migration)},
		{post, "/api/v1/migration/validate", Administer, answer(serves.Migration)},
		{post, "/api/v1/migration/reset", Administer, answer(serves.Migration)},
	}
}

// streams returns the values that all streams share.
func (s *Server) streams() wire.Streams {
	shared := wire.Streams{Ending: s.ending, NextRevocation: func() <-chan struct{} { return nil }, WriteTimeout: s.cfg.WriteTimeout}
	if s.deps.Auth != nil {
		shared.NextRevocation = s.deps.Auth.NextRevocation
	}
	return shared
}

// dashboardRoutes returns the routes of the pages for people.
func (s *Server) dashboardRoutes() []Route {
	if s.deps.Dashboard == nil {
		return nil
	}
	pages := echo.WrapHandler(s.deps.Dashboard)
	serve := func(c echo.Context) error {
		wire.CountReads(c) // counts the answers to the requests that the page sends to the API
		return pages(c)
	}
	routes := []Route{{get, "/", Public, serve}, {get, "/ui", Public, serve}, {get, "/ui/live", Public, serve}, {post, "/ui/*", Public, serve}}
	for _, path := range []string{"/", "/ui", "/ui/*"} {
		routes = append(routes, Route{http.MethodHead, path, Public, serve})
	}
	return append(routes, s.compressed([]Route{{get, "/ui/*", Public, serve}})...)
}

// internalRoutes returns the routes that http.internal_addr serves too.
func (s *Server) internalRoutes() []Route {
	return append(s.probes(s.deps.Listener, s.deps.Popper.Waiting, s.deps.Switches), Route{http.MethodGet, "/metrics/prometheus", Public, s.prometheus})
}

// probes returns the routes that a server answers even before Open.
func (s *Server) probes(listener func() ListenerState, waiting func() int, switches observe.Switches) []Route {
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
