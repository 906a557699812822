package attach

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/belfry-mq/belfry/pkg/postgres"
)

// Lister lists attachments for the server. It is safe for concurrent use.
type Lister struct{ pool *postgres.Pool }

// NewLister returns a Lister on pool. Its role owns the schema or is an admin, so it sees every
// attachment.
func NewLister(pool *postgres.Pool) *Lister { return &Lister{pool} }

// List returns up to limit attachments with an ID above after, in the order in which they were made.
// allowed are patterns of names of queues, as in belfry.matches. Nil: all. Errors: CodeUnavailable.
func (l *Lister) List(ctx context.Context, allowed []string, after, limit int64) ([]Attachment, error) {
	list, err := postgres.Collect(ctx, l.pool, sqlAttachments, readAttachment, after, limit, postgres.LikePatterns(allowed))
	return list, postgres.Wrapf(err, "listing the attached tables")
}

func readAttachment(row pgx.CollectableRow) (a Attachment, err error) {
	err = row.Scan(&a.ID, &a.Table, &a.Queue, &a.Events, &a.Key, (*zeronull.Text)(&a.Condition), &a.Payload, &a.Columns, &a.Strict,
		&a.AttachedBy, &a.AttachedAt, &a.Triggers, &a.Failures, (*zeronull.Timestamptz)(&a.LastFailedAt),
		(*zeronull.Text)(&a.LastFailure))
	return a, err
}
