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
	api.POST("/lease/:leaseId/extend", s.extend)
	api.POST("/configure", s.configure)
	api.DELETE("/resources/queues/:queue", s.deleteQueue)
	api.GET("/status/dispatcher", s.dispatcher)
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
