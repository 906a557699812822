// Package spans makes the OpenTelemetry spans of HTTP requests; see pkg/process/tracing. Only pkg/httpapi imports it.
package spans

import (
	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/process/tracing"
)

// Middleware gives each request a context for its spans. It must run after the router, which sets the route.
func Middleware(t *tracing.Tracer) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			ctx, end := t.Request(c.Request(), c.Path())
			c.SetRequest(c.Request().WithContext(ctx))
			err := next(c)
			end(c.Response().Status)
			return err
		}
	}
}
