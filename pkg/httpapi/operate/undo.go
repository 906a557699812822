package operate

import (
	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// PreviewUndo serves GET /api/v1/audit/:id/undo. Queen MQ does not have it.
func (h *Handlers) PreviewUndo(p *wire.Params) (any, error) {
	found, err := h.findUndo(p)
	if err != nil {
		return nil, err
	}
	done, err := h.Catalog.PreviewUndo(p.Ctx(), &found)
	return undone(&found, &done, true), err
}

// Undo serves POST /api/v1/audit/:id/undo. Queen MQ does not have it.
func (h *Handlers) Undo(p *wire.Params) (any, error) {
	found, err := h.findUndo(p)
	if err != nil {
		return nil, err
	}
	audit.Rename(p.Ctx(), found.UndoAction)
	audit.Begin(p.Ctx(), found.Target, audit.Parameters{"undoes": found.ID.String()})
	done, err := h.Catalog.Undo(p.Ctx(), &found)
	return undone(&found, &done, false), err
}

// findUndo returns the change of the path. The caller must be allowed to administer its queue. Without the right to read it, the
// caller does not learn that the change exists.
func (h *Handlers) findUndo(p *wire.Params) (catalog.Undoable, error) {
	id, err := queue.ParseID(p.Param("id"))
	if err != nil {
		return catalog.Undoable{}, queue.Invalidf("id must be the id of an entry of GET /api/v1/audit, not %s", wire.Clip(p.Param("id")))
	}
	found, err := h.Catalog.FindUndo(p.Ctx(), id)
	if code := queue.CodeOf(err); code == "" || code == queue.CodeConflict {
		if wire.MayRead(p.Ctx(), found.Target.Queue) != nil {
			return found, catalog.ErrNoEntry
		}
		if denied := wire.MayAdminister(p.Ctx(), found.Target.Queue); denied != nil {
			return found, denied
		}
	}
	return found, err
}

func undone(found *catalog.Undoable, done *catalog.Undone, dryRun bool) api.Undo {
	out := api.Undo{
		ID: found.ID.String(), Action: found.Action, UndoAction: found.UndoAction, Queue: found.Target.Queue,
		Partition: wire.OrNull(found.Target.Partition), Group: wire.OrNull(found.Target.Group), DryRun: dryRun,
		Values: wire.Each(done.Values, func(v *catalog.UndoneValue) api.UndoneValue {
			return api.UndoneValue{Name: v.Name, Now: v.Now, Then: v.Then}
		}),
	}
	if n := done.Places; n != nil {
		out.Places = &api.UndonePlaces{
			PartitionsMovedBack: n.Back, PartitionsMovedForward: n.Forward, PartitionsGone: n.Gone,
			MessagesDeliveredAgain: n.Again, MessagesSkipped: n.Skipped,
		}
		if dryRun {
			out.Places.LeasesEnded = &n.Leases
		}
	}
	return out
}
