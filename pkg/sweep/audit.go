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
	// auditBatch is how many rows of the audit one transaction deletes at most.
	auditBatch = 1000
)

var sqlAuditTrim = sql.Query("sweep/audit_trim")

func (s *Sweeper) audit() job { return job{name: jobAudit, interval: auditInterval, run: s.trimAudit} }

// trimAudit deletes the rows of the audit that are older than AuditRetention, in batches.
func (s *Sweeper) trimAudit(ctx context.Context, l *jobLease) error {
	for {
		began := time.Now()
		deleted, err := s.trimAuditBatch(ctx)
		if err != nil || deleted < auditBatch {
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

func (s *Sweeper) trimAuditBatch(ctx context.Context) (deleted int64, err error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	tag, err := s.pool.Exec(ctx, sqlAuditTrim, s.cfg.AuditRetention.Seconds(), int64(auditBatch))
	if err != nil {
		return 0, fmt.Errorf("deleting old rows of the audit: %w", err)
	}
	return tag.RowsAffected(), nil
}
