package transaction

import (
	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/engine/store/internal/pipeline"
	"github.com/belfry-mq/belfry/sql"
)

var sqlResendMark = sql.Query("engine/store/resend_mark")

// queueMark adds the mark of a resend to b. readMark reads its result.
func (f *flush) queueMark(b *pgx.Batch) {
	old := f.t.resend
	if old == nil {
		return
	}
	ref := f.push.Stored[0]
	item, result := &f.t.push.Items[ref.Item], ref.Result()
	b.Queue(sqlResendMark, [16]byte(old.Partition), old.TransactionID, [16]byte(result.MessageID), item.Queue, item.Partition,
		result.TransactionID, old.Sender, old.Remove, old.Group)
}

// readMark reads the result of queueMark.
func (f *flush) readMark(results pgx.BatchResults) error {
	if f.t.resend == nil {
		return nil
	}
	return pipeline.ForEach(results, "marking a message as sent again", []any{&f.t.removed}, func() error { return nil })
}
