package sweep

import (
	"context"
	"fmt"
	"time"

	"github.com/belfry-mq/belfry/sql"
)

const (
	// auditInterval is the time between two runs of the job audit.
	auditInterval = time.Hour
	// auditBatch is the maximum number of audit rows that one transaction deletes.
	auditBatch = 1000
)

var sqlAuditTrim = sql.Query("engine/sweep/audit_trim")

func (s *Sweeper) audit() job { return job{name: jobAudit, interval: auditInterval, run: s.trimAudit} }

// trimAudit deletes audit rows that are older than AuditRetention, in batches.
func (s *Sweeper) trimAudit(ctx context.Context, l *jobLease) error {
	return s.inBatches(ctx, l, s.trimAuditBatch)
}

// inBatches calls batch, with pauses, until batch returns false.
func (s *Sweeper) inBatches(ctx context.Context, l *jobLease, batch func(context.Context) (more bool, err error)) error {
	for {
		began := time.Now()
		more, err := batch(ctx)
		if err != nil || !more {
			return err
		}
		if err := l.renew(ctx); err != nil {
			return err
		}
		if err := s.pause(ctx, time.Since(began)); err != nil {
			return err
		}
	}
}

func (s *Sweeper) trimAuditBatch(ctx context.Context) (more bool, err error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	tag, err := s.pool.Exec(ctx, sqlAuditTrim, s.cfg.AuditRetention.Seconds(), int64(auditBatch))
	if err != nil {
		return false, fmt.Errorf("deleting old rows of the audit: %w", err)
	}
	return tag.RowsAffected() == auditBatch, nil
}
