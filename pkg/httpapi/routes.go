package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// routes is the whole API on one screen.
func (s *Server) routes(e *echo.Echo) {
	e.Pre(cors)
	e.Use(s.deps.Metrics.measure)
	e.GET("/health", s.health)
	e.HEAD("/health", s.health)
	e.GET("/metrics/prometheus", s.deps.Metrics.prometheus)
	e.GET("/openapi.json", s.openapi)

	api := e.Group("/api/v1")
	api.POST("/push", s.push)
	api.GET("/pop", s.popTagged)
	api.GET("/pop/queue/:queue", s.popQueue)
	api.GET("/pop/queue/:queue/partition/:partition", s.popPartition)
	api.POST("/ack", s.ack)
	api.POST("/ack/batch", s.ackBatch)
	api.POST("/transaction", s.transaction)
	api.POST("/lease/:leaseId/extend", s.extend)
	api.POST("/configure", s.configure)
	api.DELETE("/resources/queues/:queue", s.deleteQueue)
	api.GET("/consumer-groups", s.listGroups)
	api.GET("/consumer-groups/lagging", s.laggingGroups)
	api.GET("/consumer-groups/:group", s.showGroup)
	api.DELETE("/consumer-groups/:group", s.deleteGroup)
	api.DELETE("/consumer-groups/:group/queues/:queue", s.deleteGroupOfQueue)
	api.POST("/consumer-groups/:group/subscription", s.moveSubscription)
	api.POST("/consumer-groups/:group/queues/:queue/seek", s.seekQueue)
	api.POST("/consumer-groups/:group/queues/:queue/partitions/:partition/seek", s.seekPartition)
	api.GET("/resources/queues", s.queues)
	api.GET("/resources/queues/:queue", s.queue)
	api.GET("/resources/namespaces", s.namespaces)
	api.GET("/resources/tasks", s.tasks)
	api.GET("/resources/overview", s.overview)
	api.GET("/messages", s.messages)
	api.GET("/status/queues", s.queueStatuses)
	api.GET("/status/queues/:queue", s.queueStatus)
	api.GET("/status/queues/:queue/messages", s.queueMessages)
	api.GET("/status/dispatcher", s.dispatcher)
	api.GET("/status/sweeps", s.sweeps)
	api.GET("/dlq", s.listLetters)
	api.DELETE("/dlq", s.purgeLetters)
	api.POST("/dlq/redrive", s.redrive)
	api.GET("/messages/:partitionId/:transactionId", s.showMessage)
	api.DELETE("/messages/:partitionId/:transactionId", s.deleteMessage)
	api.POST("/messages/:partitionId/:transactionId/dlq", s.parkMessage)
	api.POST("/messages/:partitionId/:transactionId/retry", s.retryMessage)
	api.POST("/traces", s.addTrace)
	api.GET("/traces/names", s.traceNames)
	api.GET("/traces/by-name/:name", s.namedTraces)
	api.GET("/traces/:partitionId/:transactionId", s.messageTraces)
}

// cors puts the contract's headers on every answer and answers OPTIONS.
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
