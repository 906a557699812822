package wire

import (
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// maxHolders is how many leases Holders remembers. The oldest is forgotten first.
	maxHolders = 10_000
	// maxAgent bounds the User-Agent that is kept.
	maxAgent = 100
)

// Holders remembers who took the latest leases through this instance. The zero value is ready to use. Its
// methods may be called by any goroutine, and none blocks.
type Holders struct {
	mu     sync.Mutex
	known  map[queue.ID]api.Holder
	leases []queue.ID // in the order in which they were taken, from at on
	at     int
}

// Took notes that the sender of a request took a lease. The zero id is not kept.
func (h *Holders) Took(c echo.Context, lease queue.ID) {
	if lease.IsZero() {
		return
	}
	agent := c.Request().UserAgent()
	one := api.Holder{Caller: Caller(c), UserAgent: agent[:min(len(agent), maxAgent)]}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known == nil {
		h.known = map[queue.ID]api.Holder{}
	}
	if len(h.leases) < maxHolders {
		h.leases = append(h.leases, lease)
	} else {
		delete(h.known, h.leases[h.at])
		h.leases[h.at] = lease
		h.at = (h.at + 1) % maxHolders
	}
	h.known[lease] = one
}

// Of returns who took a lease, if it is remembered.
func (h *Holders) Of(lease queue.ID) (api.Holder, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	one, known := h.known[lease]
	return one, known
}
