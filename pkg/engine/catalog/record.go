package catalog

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlUndoValues  = sql.Query("engine/catalog/undo_values")
	sqlUndoReplace = sql.Query("engine/catalog/undo_replace")
	sqlUndoPlaces  = sql.Query("engine/catalog/undo_places")
	sqlUndoCheck   = sql.Query("engine/catalog/undo_check")
)

// The values of audit_undo.kind.
const kindOptions, kindPause, kindPlaces = "options", "pause", "places"

// values are settings of a queue by their names in the API.
type values map[string]any

// differing returns the settings that differ, with their values before and after.
func differing(before, after *Settings) (was, is values) {
	was, is = values{}, values{}
	old, now := before.columns(), after.columns()
	for i, name := range settingNames {
		if a, b := value(old[i]), value(now[i]); a != b {
			was[name], is[name] = a, b
		}
	}
	return was, is
}

// value returns the value of a column of Settings.
func value(column any) any {
	switch v := column.(type) {
	case *string:
		return *v
	case *bool:
		return *v
	case *int64:
		return *v
	}
	panic(fmt.Sprintf("a column has the type %T", column))
}

// recordSettings keeps the old values of a change of a queue. A change that no person made, or that changed nothing, keeps
// none.
func recordSettings(ctx context.Context, tx pgx.Tx, queueID int64, before, after *Settings) error {
	was, is := differing(before, after)
	if len(was) == 0 {
		return nil
	}
	old, _ := json.Marshal(was) // a map of texts, numbers and flags can always be encoded
	now, _ := json.Marshal(is)
	return recordValues(ctx, tx, kindOptions, &valueChange{queue: zeronull.Int8(queueID), before: old, after: now})
}

// recordValues keeps the old values of a change.
func recordValues(ctx context.Context, tx pgx.Tx, kind string, d *valueChange) error {
	e := audit.From(ctx)
	if e == nil {
		return nil
	}
	_, err := tx.Exec(ctx, sqlUndoValues, [16]byte(e.ID), kind, d.queue, d.group, d.partition, string(d.before), string(d.after))
	return err
}

// recordPlaces keeps the old positions of the cursors that one transaction of a seek moved. Earlier seeks of these cursors
// lose theirs. If the seek is an undo, recordPlaces returns CodeConflict unless the undone seek is still the latest one. The
// caller has locked the cursors, so seeks of the same cursors come here one after the other.
func (c *Catalog) recordPlaces(ctx context.Context, tx pgx.Tx, target *seekTarget, moves []move) error {
	e := audit.From(ctx)
	if e == nil {
		return nil
	}
	if target.undoes != (queue.ID{}) {
		if err := checkUndoable(ctx, tx, target.undoes); err != nil {
			return err
		}
	}
	var kept places
	for _, m := range moves {
		if m.before != m.after {
			kept.partitions, kept.before, kept.after = append(kept.partitions, m.partition), append(kept.before, m.before), append(kept.after, m.after)
		}
	}
	if len(kept.partitions) == 0 {
		return nil
	}
	id, partition := [16]byte(e.ID), zeronull.Int8(target.partition)
	if _, err := tx.Exec(ctx, sqlUndoReplace, id, target.group, partition, zeronull.UUID(target.undoes)); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, sqlUndoPlaces, id, target.queue, target.group, partition, len(kept.partitions), kept.partitions,
		kept.before, kept.after, c.maxUndoable)
	return err
}

// checkUndoable locks what a change replaced. It returns CodeConflict if the change is undone, or replaced by a later change.
func checkUndoable(ctx context.Context, tx pgx.Tx, id queue.ID) error {
	tag, err := tx.Exec(ctx, sqlUndoCheck, [16]byte(id))
	if err == nil && tag.RowsAffected() == 0 {
		err = conflictf("another request has undone or replaced the change meanwhile: load it again")
	}
	return err
}
