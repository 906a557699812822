package catalog

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/engine/limit"
)

// none is the JSON of limits that are not set.
var none = []byte("null")

// limitsAction returns the action of the undo of a change of limits.
func (u *Undoable) limitsAction() string {
	if bytes.Equal(u.before, none) {
		return audit.RemoveLimits
	}
	return audit.SetLimits
}

// undoLimits puts the old limits of a group or of a queue back. With dryRun it changes nothing. It returns CodeConflict if the
// limits have changed since.
func (c *Catalog) undoLimits(ctx context.Context, u *Undoable, dryRun bool) (Undone, error) {
	var to json.RawMessage
	if !bytes.Equal(u.before, none) {
		to = u.before
	}
	var out Undone
	check := func(queueID int64, done limit.Change) error {
		now := []byte(done.Before)
		if now == nil {
			now = none
		}
		switch {
		case queueID != u.queue:
			return conflictf("the queue %q was deleted and created again since", u.Target.Queue)
		case !bytes.Equal(now, u.after):
			return conflictf("the limits were changed again since: they are %s now, and the change made them %s", now, u.after)
		}
		out.Values = []UndoneValue{{Name: "limits", Now: now, Then: u.before}}
		return nil
	}
	done, err := c.limits.Set(ctx, limit.Of{Queue: u.Target.Queue, Group: u.Target.Group}, to, dryRun,
		func(ctx context.Context, tx pgx.Tx, queueID int64, done limit.Change) error {
			if err := check(queueID, done); err != nil {
				return err
			}
			return u.finish(ctx, tx)
		})
	if err == nil && dryRun {
		err = check(u.queue, done)
	}
	return out, err
}
