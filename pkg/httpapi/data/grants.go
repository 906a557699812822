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

// mayPush returns CodeForbidden if the grants of the principal do not allow all of the pushes.
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

// hideAcks replaces the partition id of each acknowledgment that the grants of the principal do not allow by
// a new id. So its answer is the same as for a message that does not exist. hideAcks does not replace the id
// of a partition that does not exist, because the server must recognize a repeated transaction.
func (h *Handlers) hideAcks(ctx context.Context, items []*queue.AckItem) error {
	grants := identity.GrantsOf(ctx)
	if grants == nil || len(items) == 0 {
		return nil
	}
	ids := make([]queue.ID, len(items)) // no partition has the zero id
	for i, item := range items {
		if id, err := queue.ParseID(item.PartitionID); err == nil {
			ids[i] = id
		}
	}
	allowed := func(at int, name string) bool { return grants.MayConsume(name, items[at].Group) }
	queues, err := h.Owners.QueuesOf(ctx, ids, allowed)
	if err != nil {
		return err
	}
	for i, item := range items {
		if name, exists := queues[ids[i]]; exists && !allowed(i, name) {
			item.PartitionID = queue.NewID().String()
		}
	}
	return nil
}

// hideLeases returns the ids of leases. It replaces each id that the grants of the principal do not allow by
// a new id. So the answer is the same as for a lease that does not exist. shown replaces the new ids in an
// answer by the original ids.
func (h *Handlers) hideLeases(ctx context.Context, leases []string) (hidden []string, shown *strings.Replacer, err error) {
	grants := identity.GrantsOf(ctx)
	if grants == nil || len(leases) == 0 {
		return leases, strings.NewReplacer(), nil
	}
	ids := make([]queue.ID, len(leases)) // no lease has the zero id
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

// mayPop returns CodeForbidden if the grants of the principal do not allow the pop. It limits a pop by tags
// to the queues that the grants allow.
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
			Code: queue.CodeForbidden, Message: fmt.Sprintf("Insufficient permissions: the token has no grant to consume any queue as group %q; the list consume of its claim belfry does not have it", req.Group),
		}
	}
	req.Tags.Allowed = queue.JoinPatterns(patterns)
	return nil
}
