package queen

import (
	"time"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/history"
)

// Process has the figures of this process since its start. The rates are per second in the last minute.
type Process struct {
	Uptime                   time.Duration
	Requests, Messages       int64
	RequestRate, MessageRate float64
}

// Metrics serves GET /metrics. It shows figures of this process since its start, and does not use the database.
func (h *Handlers) Metrics(*wire.Params) (any, error) {
	m := h.Process()
	size, idle, _ := h.Pool()
	resident, heap := history.Memory()
	user, system := history.CPUTimes()
	return wire.Fields{
		"uptime", m.Uptime,
		"requests", wire.Fields{"total", m.Requests, "rate", m.RequestRate},
		"messages", wire.Fields{"total", m.Messages, "rate", m.MessageRate},
		"database", wire.Fields{"poolSize", size, "idleConnections", idle, "waitingRequests", 0},
		"memory", wire.Fields{"rss", resident, "heapTotal", heap, "heapUsed", heap, "external", 0, "arrayBuffers", 0},
		"cpu", wire.Fields{"user", user.Microseconds(), "system", system.Microseconds()},
	}, nil
}
