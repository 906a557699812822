package data

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// mayPush returns CodeForbidden if the grants of the principal do not allow one of the pushes.
func mayPush(ctx context.Context, items []queue.PushItem) error {
	for i := range items {
		if i > 0 && items[i].Queue == items[i-1].Queue {
			continue
		}
		if err := wire.MayPush(ctx, items[i].Queue); err != nil {
			return err
		}
	}
	return nil
}

// hideAcks gives each acknowledgment of a partition that the grants of the principal do not allow the id of
// no partition. So its answer is the one for a message that does not exist. Ids of what does not exist stay,
// because a repeated transaction must be recognized.
func (h *Handlers) hideAcks(ctx context.Context, items []*queue.AckItem) error {
	grants := identity.GrantsOf(ctx)
	if grants == nil || len(items) == 0 {
		return nil
	}
	ids := make([]queue.ID, len(items)) // the zero id is the id of no partition
	for i, item := range items {
		if id, err := queue.ParseID(item.PartitionID); err == nil {
			ids[i] = id
		}
	}
	may := func(at int, name string) bool { return grants.MayConsume(name, items[at].Group) }
	queues, err := h.Owners.QueuesOf(ctx, ids, may)
	if err != nil {
		return err
	}
	for i, item := range items {
		if name, exists := queues[ids[i]]; exists && !may(i, name) {
			item.PartitionID = queue.NewID().String()
		}
	}
	return nil
}

// hideLeases returns the leases with a new id for each one that the grants of the principal do not allow.
// So their answer is the one for a lease that does not exist. shown replaces the new ids in an answer.
func (h *Handlers) hideLeases(ctx context.Context, leases []string) (hidden []string, shown *strings.Replacer, err error) {
	grants := identity.GrantsOf(ctx)
	if grants == nil || len(leases) == 0 {
		return leases, strings.NewReplacer(), nil
	}
	ids := make([]queue.ID, len(leases)) // the zero id is the id of no lease
	for i, text := range leases {
		if id, err := queue.ParseID(text); err == nil {
			ids[i] = id
		}
	}
	owners, err := h.Owners.Leases(ctx, ids)
	if err != nil {
		return nil, nil, err
	}
	hidden = slices.Clone(leases)
	var replacements []string
	for i, id := range ids {
		if slices.ContainsFunc(owners[id], func(o catalog.Owner) bool { return !grants.MayConsume(o.Queue, o.Group) }) {
			hidden[i] = queue.NewID().String()
			replacements = append(replacements, hidden[i], id.String())
		}
	}
	return hidden, strings.NewReplacer(replacements...), nil
}

// mayPop returns CodeForbidden if the grants of the principal do not allow the pop. A pop by tags gets
// only the queues that they allow.
func mayPop(ctx context.Context, req *queue.PopRequest) error {
	grants := identity.GrantsOf(ctx)
	switch {
	case grants == nil:
		return nil
	case req.Tags == nil:
		return wire.MayConsume(ctx, req.Queue, req.Group)
	}
	patterns := grants.Consumable(req.Group)
	if len(patterns) == 0 {
		return &queue.Error{
			Code: queue.CodeForbidden, Message: fmt.Sprintf("Insufficient permissions: the token has no grant to consume any queue as group %q", req.Group),
		}
	}
	req.Tags.Allowed = queue.JoinPatterns(patterns)
	return nil
}
