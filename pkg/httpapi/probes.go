package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/httpapi/observe"
	"github.com/belfry-mq/belfry/pkg/httpapi/queen"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
)

const (
	// pingTimeout limits a ping of the database.
	pingTimeout = 2 * time.Second
	// pingInterval is the minimum time between two pings for /readyz.
	pingInterval = time.Second
	// pingFailures is how many pings in a row must fail before /readyz answers 503.
	pingFailures = 2
)

// live serves GET /livez. It does no work, so it fails only if the process hangs.
func live(c echo.Context) error { return wire.Answer(c, http.StatusOK, []byte(`{"status":"alive"}`)) }

// ready serves GET /readyz. The answer is 200 if load balancers may send requests, and otherwise 503 with the reason.
func (s *Server) ready(c echo.Context) error {
	reason := string(s.currentPhase())
	switch {
	case s.isDraining():
		reason = "draining"
	case reason == "" && s.database.away(c.Request().Context()):
		reason = "database_away"
	}
	if reason != "" {
		return wire.Answer(c, http.StatusServiceUnavailable, fmt.Appendf(nil, `{"status":"not_ready","reason":%q}`, reason))
	}
	return wire.Answer(c, http.StatusOK, []byte(`{"status":"ready"}`))
}

// health returns the handler of GET /health. The answer is 200 if the server can work now, and otherwise
// 503 with the reason. switches is nil while the server starts.
func (s *Server) health(listener func() ListenerState, waiting func() int, switches observe.Switches) echo.HandlerFunc {
	return wire.JSON(func(p *wire.Params) (any, error) {
		state, database := "healthy", "connected"
		// A canceled ping closes its connection to the database. So the end of the request does not cancel the ping.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(p.Ctx()), pingTimeout)
		defer cancel()
		if err := s.start.Ping(ctx); err != nil {
			state, database = "unhealthy", "disconnected"
		}
		if s.currentPhase() != serving {
			state = "starting"
		}
		if s.isDraining() {
			state = "stopping"
		}
		if state != "healthy" {
			p.Status = http.StatusServiceUnavailable
		}
		l, worker := listener(), os.Getpid()
		return wire.Fields{
			"status", state, "database", database, "server", "belfry", "worker_id", worker, "version", s.start.Version,
			"waiting", waiting(), "listener", wire.Fields{"state", l.State, "secondsSinceProof", l.SecondsSinceProof},
			"shared_state", queen.InstanceState(&l, switches), "queen", wire.Fields{"worker_id", worker, "status", "active"},
		}, nil
	})
}

// databaseCheck tells /readyz whether the database answers. It pings at most once in pingInterval, and
// only when a probe calls away. A single failed ping changes nothing: taking all servers out of service
// because of a short failure would do more harm than the failure.
type databaseCheck struct {
	ping func(ctx context.Context) error
	log  *zap.Logger

	mu       sync.Mutex
	pinged   time.Time // the end of the latest ping, under mu
	failures int       // how many of the latest pings failed in a row, under mu
}

// away reports whether the last pingFailures pings failed. It may ping, and blocks at most for pingTimeout.
func (d *databaseCheck) away(ctx context.Context) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pinged.IsZero() || time.Since(d.pinged) >= pingInterval {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingTimeout)
		err := d.ping(ctx)
		cancel()
		d.pinged = time.Now()
		d.note(err)
	}
	return d.failures >= pingFailures
}

// note counts the failures in a row. It logs when their number reaches pingFailures, and when the database
// answers again.
func (d *databaseCheck) note(err error) {
	if err == nil {
		if d.failures >= pingFailures {
			d.log.Info("the database answers again, so /readyz answers 200")
		}
		d.failures = 0
		return
	}
	if d.failures++; d.failures == pingFailures {
		d.log.Warn("the database does not answer, so /readyz answers 503", zap.Error(err))
	}
}
