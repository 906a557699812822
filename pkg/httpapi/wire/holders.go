package wire

import (
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// maxHolders is how many leases Holders remembers. It forgets the oldest lease first.
	maxHolders = 10_000
	// maxAgent is the maximum number of bytes that Holders keeps of a User-Agent.
	maxAgent = 100
)

// Holders remembers which senders took the latest leases at this instance. The zero value is ready to use. It
// is safe for concurrent use.
type Holders struct {
	mu     sync.Mutex
	known  map[queue.ID]api.Holder
	leases []queue.ID // a ring in the order of the calls of Took; the oldest lease is at the index at
	at     int
}

// Took records that the sender of a request took a lease. It ignores the zero id.
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

// Of returns the sender that took a lease. The second result is false if the lease is not remembered.
func (h *Holders) Of(lease queue.ID) (api.Holder, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	one, known := h.known[lease]
	return one, known
}
