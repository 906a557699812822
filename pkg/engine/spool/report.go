package spool

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/backoff"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlReport = sql.Query("engine/spool/report")
	sqlForget = sql.Query("engine/spool/forget")
	sqlList   = sql.Query("engine/spool/list")
)

const (
	// reportInterval is the minimum time between two reports. reportRetry is the pause after a failed
	// report.
	reportInterval = time.Second
	reportRetry    = 5 * time.Second
	// lastReportTimeout bounds the last report, when ctx has ended.
	lastReportTimeout = 2 * time.Second
)

// Held is the content of the spool of one instance at ChangedAt.
type Held struct {
	ID   queue.ID
	Host string
	Stats
	ChangedAt time.Time
}

// snapshot returns the current content of the spool. Its ID is zero without a file.
func (s *Spool) snapshot() Held {
	s.index.mu.Lock()
	defer s.index.mu.Unlock()
	return Held{
		ID: s.index.id, Host: s.Host,
		Stats: Stats{Messages: s.index.messages, Rejected: s.index.rejects, Bytes: s.index.bytes},
	}
}

// runReports keeps the row of this spool in belfry.spool current until ctx ends, and then writes it
// once more.
func (s *Spool) runReports(ctx context.Context) {
	var written Held
	for {
		select {
		case <-ctx.Done():
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), lastReportTimeout)
			defer cancel()
			_ = s.report(ctx, &written)
			return
		case <-s.index.unreported:
		}
		pause := reportInterval
		if err := s.report(ctx, &written); err != nil {
			pause = reportRetry
			s.index.signal()
		}
		_ = backoff.Sleep(ctx, pause)
	}
}

// report writes the current content of the spool. It replaces the last written row.
func (s *Spool) report(ctx context.Context, written *Held) error {
	now := s.snapshot()
	if now == *written {
		return nil
	}
	if written.ID != now.ID && !written.ID.IsZero() {
		if _, err := s.Pool.Exec(ctx, sqlForget, [16]byte(written.ID)); err != nil {
			return err
		}
	}
	if !now.ID.IsZero() {
		if _, err := s.Pool.Exec(ctx, sqlReport, [16]byte(now.ID), now.Host, now.Messages, now.Rejected, now.Bytes); err != nil {
			return err
		}
	}
	*written = now
	return nil
}

// Everywhere returns the contents of the spools of all instances. The first element is the spool of
// this instance, even if it is empty. The other elements are the last reports of other instances.
// Errors: CodeUnavailable; then the result has only the spool of this instance.
func (s *Spool) Everywhere(ctx context.Context) ([]Held, error) {
	own := s.snapshot()
	own.ChangedAt = time.Now()
	all := []Held{own}
	rows, err := postgres.Collect(ctx, s.Pool, sqlList, func(row pgx.CollectableRow) (h Held, err error) {
		err = row.Scan((*[16]byte)(&h.ID), &h.Host, &h.Messages, &h.Rejected, &h.Bytes, &h.ChangedAt)
		return h, err
	})
	for _, h := range rows {
		if h.ID != own.ID {
			all = append(all, h)
		}
	}
	return all, postgres.Wrapf(err, "reading the contents of the spools")
}
