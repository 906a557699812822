package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/engine/limit"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlUndoFind     = sql.Query("engine/catalog/undo_find")
	sqlUndoDone     = sql.Query("engine/catalog/undo_done")
	sqlUndoSettings = sql.Query("engine/catalog/undo_settings")
	sqlUndoPage     = sql.Query("engine/catalog/undo_page")
	sqlUndoPreview  = sql.Query("engine/catalog/undo_preview")
)

// conflictf returns a CodeConflict error.
func conflictf(format string, args ...any) error {
	return &queue.Error{Code: queue.CodeConflict, Message: fmt.Sprintf(format, args...)}
}

// places are positions of cursors before and after a seek.
type places struct{ partitions, before, after []int64 }

// Undoable is a change of an operator that can be undone, as FindUndo found it.
type Undoable struct {
	// ID is the id of the change in the audit. Action and Target are those of the change.
	ID     queue.ID
	Action string
	Target audit.Target
	// UndoAction is the action of the undo.
	UndoAction string

	kind                    string
	queue, group, partition int64
	before, after, now      []byte // now is the state of the pause
	moved, epoch            int64
}

// Undone is the effect of an undo, or of its preview.
type Undone struct {
	// Values are the values that change, in order of their names. Empty for a seek.
	Values []UndoneValue
	// Places is nil except for a seek.
	Places *UndonePlaces
}

// UndoneValue is an option, tag, pause, or all limits. Now and Then are JSON.
type UndoneValue struct {
	Name      string
	Now, Then json.RawMessage
}

// UndonePlaces counts the moves of cursors.
type UndonePlaces struct {
	// Back and Forward count the partitions whose cursor moves. Gone counts the partitions that have no cursor any more.
	Back, Forward, Gone int64
	// Again is the number of messages that the group receives again. Skipped is the number of unfinished messages that it does
	// not receive. Both also count deleted messages.
	Again, Skipped int64
	// Leases is the number of leases that end. The preview counts them.
	Leases int64
}

// ErrNoEntry is the error of FindUndo for a change that does not exist.
var ErrNoEntry = &queue.Error{Code: queue.CodeNotFound, Message: "Audit entry not found"}

// FindUndo returns a change of the audit that can be undone. Errors: CodeNotFound; CodeConflict, if the change has no old
// values or its object is gone or has changed since; CodeUnavailable.
func (c *Catalog) FindUndo(ctx context.Context, id queue.ID) (Undoable, error) {
	u, kind := Undoable{ID: id}, zeronull.Text("")
	var moved zeronull.Int8
	var replaced, undone zeronull.UUID
	var hasQueue, hasGroup, hasPartition bool
	err := c.pool.ScanRow(ctx, []any{
		&u.Action, (*zeronull.Text)(&u.Target.Queue), (*zeronull.Text)(&u.Target.Partition), (*zeronull.Text)(&u.Target.Group), &kind,
		(*zeronull.Int8)(&u.queue), (*zeronull.Int8)(&u.group), (*zeronull.Int8)(&u.partition), &u.before, &u.after,
		&moved, &replaced, &undone, &u.epoch, &hasQueue, &hasGroup, &hasPartition, &u.now,
	}, sqlUndoFind, [16]byte(id))
	if postgres.IsNoRows(err) {
		return u, ErrNoEntry
	}
	if err != nil {
		return u, postgres.Wrapf(err, "looking for the change %s", id)
	}
	u.kind, u.moved = string(kind), int64(moved)
	switch {
	case u.kind == "":
		err = conflictf("the change has no old values, so it cannot be undone: only a change of options or limits, a pause, a resume or a seek that changed something has them")
	case undone != zeronull.UUID{}:
		err = conflictf("the change is undone already: the audit has the undo as %s", queue.ID(undone))
	case replaced != zeronull.UUID{}:
		err = conflictf("the group was moved again since: the audit has the later move as %s. Only the latest move of a group can be undone", queue.ID(replaced))
	case u.moved > c.maxUndoable:
		err = conflictf("the seek moved %d cursors: the places of a seek of more than %d cursors are not kept", u.moved, c.maxUndoable)
	case !hasQueue:
		err = conflictf("the queue %q was deleted since", u.Target.Queue)
	case !hasGroup:
		err = conflictf("the group %q was deleted since", u.Target.Group)
	case !hasPartition:
		err = conflictf("the partition %q was deleted since", u.Target.Partition)
	}
	u.UndoAction = u.undoAction()
	return u, err
}

// pauseState is the state of a queue, partition or group.
type pauseState struct {
	Paused bool   `json:"paused"`
	Reason string `json:"reason"`
}

func (u *Undoable) undoAction() string {
	switch u.kind {
	case kindOptions:
		return audit.ConfigureQueue
	case kindPlaces:
		return audit.SeekGroup
	case limit.UndoKind:
		return u.limitsAction()
	}
	var state pauseState
	_ = json.Unmarshal(u.before, &state) // Postgres made the text
	if state.Paused {
		return audit.PauseDelivery
	}
	return audit.ResumeDelivery
}

// PreviewUndo returns what Undo would do, and changes nothing. It returns CodeConflict where Undo returns it.
func (c *Catalog) PreviewUndo(ctx context.Context, u *Undoable) (out Undone, err error) {
	switch u.kind {
	case kindPlaces:
		return c.previewPlaces(ctx, u)
	case limit.UndoKind:
		return c.undoLimits(ctx, u, true)
	case kindPause:
		var now pauseState
		if err = json.Unmarshal(u.now, &now); err != nil {
			return out, err
		}
		return u.pause(now)
	}
	set := Settings{Queue: u.Target.Queue}
	if err = c.pool.ScanRow(ctx, set.columns(), sqlUndoSettings, u.queue); err != nil {
		return out, postgres.Wrapf(err, "reading the options of queue %q", set.Queue)
	}
	out.Values, err = u.apply(&set)
	return out, err
}

// Undo puts the old values of a change back. Errors: CodeConflict, if the values have changed since; CodeUnavailable. An undo
// of a seek works in pages. After CodeUnavailable, some cursors may have moved, and the same request moves the rest.
func (c *Catalog) Undo(ctx context.Context, u *Undoable) (Undone, error) {
	switch u.kind {
	case kindPlaces:
		return c.undoPlaces(ctx, u)
	case kindPause:
		return c.undoPause(ctx, u)
	case limit.UndoKind:
		return c.undoLimits(ctx, u, false)
	default:
		return c.undoOptions(ctx, u)
	}
}

// finish marks a change as undone, in the transaction of the undo.
func (u *Undoable) finish(ctx context.Context, tx audit.Execer) error {
	var by queue.ID
	if e := audit.From(ctx); e != nil {
		by = e.ID
	}
	tag, err := tx.Exec(ctx, sqlUndoDone, [16]byte(u.ID), [16]byte(by))
	if err == nil && tag.RowsAffected() == 0 {
		err = conflictf("another request has undone or replaced the change meanwhile: load it again")
	}
	return err
}

func (c *Catalog) undoOptions(ctx context.Context, u *Undoable) (out Undone, err error) {
	_, _, err = c.change(ctx, u.Target.Queue, func(set *Settings) (err error) {
		out.Values, err = u.apply(set)
		return err
	}, func(ctx context.Context, tx pgx.Tx, stored *storedQueue) error {
		if stored.id != u.queue {
			return conflictf("the queue %q was deleted and created again since", u.Target.Queue)
		}
		return u.finish(ctx, tx)
	})
	return out, err
}

// apply puts the old values into the settings of a queue. It returns CodeConflict if one of them has changed since.
func (u *Undoable) apply(set *Settings) (changes []UndoneValue, err error) {
	was, is := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if err := u.decode(&was, &is); err != nil {
		return nil, err
	}
	columns := set.columns()
	for i, name := range settingNames {
		if _, changed := was[name]; !changed {
			continue
		}
		now, _ := json.Marshal(value(columns[i])) // a text, number or flag
		if !bytes.Equal(now, is[name]) {
			return nil, conflictf("%s was changed again since: it is %s now, and the change made it %s", name, now, is[name])
		}
		if err := json.Unmarshal(was[name], columns[i]); err != nil {
			return nil, err
		}
		changes = append(changes, UndoneValue{Name: name, Now: now, Then: was[name]})
	}
	slices.SortFunc(changes, func(a, b UndoneValue) int { return strings.Compare(a.Name, b.Name) })
	return changes, nil
}

// decode reads the values before and after a change.
func (u *Undoable) decode(before, after any) error {
	err := json.Unmarshal(u.before, before)
	if err == nil {
		err = json.Unmarshal(u.after, after)
	}
	if err != nil {
		return fmt.Errorf("reading the old values of %s: %w", u.ID, err)
	}
	return nil
}

func (c *Catalog) undoPause(ctx context.Context, u *Undoable) (out Undone, err error) {
	var was, is pauseState
	if err := u.decode(&was, &is); err != nil {
		return out, err
	}
	what := Pausable{Queue: u.Target.Queue, Partition: u.Target.Partition, Group: u.Target.Group}
	_, err = c.pause(ctx, what, was.Paused, was.Reason, func(ctx context.Context, tx pgx.Tx, done *valueChange) error {
		if int64(done.queue) != u.queue || int64(done.group) != u.group || int64(done.partition) != u.partition {
			return conflictf("the object was deleted and created again since")
		}
		now := was
		if done.changed.Bool {
			now = pauseState{}
			if err := json.Unmarshal(done.before, &now); err != nil {
				return err
			}
		}
		if out, err = u.pause(now); err != nil {
			return err
		}
		return u.finish(ctx, tx)
	})
	return out, err
}

// pause returns the undo of a pause or a resume. It returns CodeConflict if the state is no longer that after the change.
func (u *Undoable) pause(now pauseState) (out Undone, err error) {
	var was, is pauseState
	if err := u.decode(&was, &is); err != nil {
		return out, err
	}
	switch {
	case now.Paused != is.Paused && now.Paused:
		return out, conflictf("it was paused again since")
	case now.Paused != is.Paused:
		return out, conflictf("it was resumed since")
	case now != is:
		return out, conflictf("it was resumed and paused again since, for the reason %q", now.Reason)
	}
	encode := func(of any) json.RawMessage {
		text, _ := json.Marshal(of) // a text or a flag
		return text
	}
	out.Values = []UndoneValue{{Name: "paused", Now: encode(is.Paused), Then: encode(was.Paused)}}
	if was.Reason != is.Reason {
		out.Values = append(out.Values, UndoneValue{Name: "reason", Now: encode(is.Reason), Then: encode(was.Reason)})
	}
	return out, nil
}

// previewPlaces counts what undoPlaces would do.
func (c *Catalog) previewPlaces(ctx context.Context, u *Undoable) (Undone, error) {
	sum := &UndonePlaces{}
	for first := int64(0); ; {
		var n UndonePlaces
		err := c.pool.ScanRow(ctx, []any{&first, &n.Back, &n.Forward, &n.Gone, &n.Again, &n.Skipped, &n.Leases}, sqlUndoPreview,
			[16]byte(u.ID), first, u.group)
		if postgres.IsNoRows(err) {
			return Undone{Places: sum}, nil
		}
		if err != nil {
			return Undone{}, postgres.Wrapf(err, "counting the moves of an undo")
		}
		sum.Back, sum.Forward, sum.Gone = sum.Back+n.Back, sum.Forward+n.Forward, sum.Gone+n.Gone
		sum.Again, sum.Skipped, sum.Leases = sum.Again+n.Again, sum.Skipped+n.Skipped, sum.Leases+n.Leases
	}
}

// undoPlaces undoes a seek, page by page.
func (c *Catalog) undoPlaces(ctx context.Context, u *Undoable) (Undone, error) {
	target := seekTarget{queue: u.queue, group: u.group, partition: u.partition, epoch: u.epoch, undoes: u.ID}
	sum := &UndonePlaces{}
	err := c.undoPages(ctx, u, &target, sum)
	if err == nil {
		err = c.pool.InTransaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
			if target.moved == 0 { // no page has written the row of the audit
				if err := audit.Write(ctx, tx, audit.Counts{"cursors": 0}); err != nil {
					return err
				}
			}
			return u.finish(ctx, tx)
		})
	}
	c.events.Resync("the move of a consumer group was undone", events.Here)
	return Undone{Places: sum}, postgres.Wrapf(err, "undoing %s", u.ID)
}

func (c *Catalog) undoPages(ctx context.Context, u *Undoable, target *seekTarget, sum *UndonePlaces) error {
	for first := int64(0); ; {
		var page places
		err := c.pool.ScanRow(ctx, []any{&first, &page.partitions, &page.before, &page.after}, sqlUndoPage, [16]byte(u.ID), first)
		if postgres.IsNoRows(err) {
			return nil
		}
		if err != nil {
			return err
		}
		moves, err := c.seek(ctx, page.partitions, *target, pgtype.Timestamptz{}, &page)
		if err != nil {
			return err
		}
		if err := c.pool.CheckEpoch(ctx, target.epoch); err != nil {
			return err
		}
		target.moved += int64(len(moves))
		sum.Gone += int64(len(page.partitions) - len(moves))
		for _, m := range moves {
			switch {
			case m.after < m.before:
				sum.Back, sum.Again = sum.Back+1, sum.Again+m.before-m.after
			case m.after > m.before:
				sum.Forward, sum.Skipped = sum.Forward+1, sum.Skipped+m.after-m.before
			}
		}
	}
}
