package changes

import (
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

// Pauses are the reasons of the pauses in a queue.
type Pauses []api.Pause

// PausesOf returns the reasons of the pauses in a queue. Without a pause it reads nothing.
func PausesOf(r *page.Request, name string, paused bool) (Pauses, error) {
	if !paused {
		return nil, nil
	}
	found, err := source.Read[api.Pauses](r.Ctx, r.Client, r.Caller, string(page.Link("/api/v1/pauses", "queue", name)))
	if err != nil {
		return nil, err
	}
	return found.Pauses, nil
}

// Reason returns the reason of the pause of a partition, of a group, or of the queue if both names are empty. It is empty if there
// is no reason.
func (p Pauses) Reason(partition, group string) string {
	for _, one := range p {
		if page.Optional(one.Partition) == partition && page.Optional(one.Group) == group {
			return page.Optional(one.Reason)
		}
	}
	return ""
}
