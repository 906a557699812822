package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/belfry-mq/belfry/pkg/engine/portable"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

const (
	// emptySnapshot is a snapshot that contains no row.
	emptySnapshot = "3:3:"
	// scanRows is the maximum number of rows that one scan reads.
	scanRows = 25_000
	// batchRows and batchBytes bound one transaction, because pushes to the same partitions wait for
	// its end.
	batchRows  = 2000
	batchBytes = 4 << 20
)

var (
	sqlLook  = sql.Query("engine/inbox/look")
	sqlFirst = sql.Query("engine/inbox/first")
)

// row is a row of the inbox.
type row struct {
	id   int64
	item queue.PushItem
	// problem is the reason why the row is rejected. It is nil while no reason is known.
	problem *queue.Error
}

// scan reads rows and passes them to move in batches. It reads the next batch while move runs. All
// rows of a scan belong to one snapshot. scan returns the snapshot, and whether the snapshot may
// contain more rows.
func (s *Sequencer) scan(ctx context.Context, move func([]row) error) (snapshot string, more bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	batches, readErr := make(chan []row), make(chan error, 1)
	found := 0
	go func() {
		defer close(batches)
		var err error
		snapshot, err = s.readBatches(ctx, func(batch []row) bool {
			found += len(batch)
			select {
			case batches <- batch:
				return true
			case <-ctx.Done():
				return false
			}
		})
		readErr <- err
	}()
	for batch := range batches {
		if err == nil {
			if err = move(batch); err != nil {
				cancel()
			}
		}
	}
	if failed := <-readErr; err == nil {
		err = failed
	}
	return snapshot, found == scanRows, err
}

// scanQuery returns the query for rows that a snapshot did not contain. A full scan uses a
// different query, because sorting a large backlog can take longer than the statement timeout.
func scanQuery(scanned string) string {
	if scanned == emptySnapshot {
		return sqlFirst
	}
	return sqlLook
}

// readBatches reads the rows of one scan and passes them to hand in batches, until hand returns false. It returns the
// snapshot of the scan. It waits for each row at most the request timeout, because the connection may be broken without
// an error. The time of hand does not count.
func (s *Sequencer) readBatches(ctx context.Context, hand func([]row) bool) (snapshot string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	limit := s.SequencerPool.RequestTimeout()
	silence := time.AfterFunc(limit, cancel)
	defer silence.Stop()
	rows, err := s.SequencerPool.Query(ctx, scanQuery(s.scanned), s.scanned, int64(scanRows), s.cfg.MaxPayload)
	if err != nil {
		return "", fmt.Errorf("scanning the inbox: %w", err)
	}
	defer rows.Close()
	var batch []row
	bytes := 0
	for rows.Next() {
		silence.Reset(limit)
		r, seen, ok, err := s.readRow(rows)
		if err != nil {
			return snapshot, fmt.Errorf("reading a row of the inbox: %w", err)
		}
		if seen != "" {
			snapshot = seen
		}
		if !ok {
			continue
		}
		bytes += len(r.item.Payload) + len(r.item.Headers)
		batch = append(batch, r)
		if len(batch) == batchRows || bytes >= batchBytes {
			silence.Stop()
			if !hand(batch) {
				return snapshot, ctx.Err()
			}
			silence.Reset(limit)
			batch, bytes = nil, 0
		}
	}
	if err := rows.Err(); err != nil {
		return snapshot, fmt.Errorf("reading the inbox: %w", err)
	}
	if len(batch) > 0 {
		hand(batch)
	}
	return snapshot, nil
}

// readRow reads one row. Only the first row of a scan has a snapshot. ok is false if the scan found
// no row, or if the row was deleted meanwhile.
func (s *Sequencer) readRow(rows pgx.Rows) (r row, snapshot string, ok bool, err error) {
	var queueName pgtype.Text
	var bytes int64
	var tooLate bool
	var headers []byte
	item := &r.item
	err = rows.Scan((*zeronull.Text)(&snapshot), (*zeronull.Int8)(&r.id), &queueName, (*zeronull.Text)(&item.Partition),
		(*[]byte)(&item.Payload), (*zeronull.Int8)(&bytes), &item.TransactionID, (*zeronull.UUID)(&item.TraceID),
		(*zeronull.Timestamptz)(&item.VisibleAt), &tooLate, &headers, (*zeronull.Text)(&item.Tenant))
	item.Queue = queueName.String
	if r.problem = s.check(item, bytes, tooLate); r.problem == nil && headers != nil {
		r.problem = setHeaders(item, headers)
	}
	return r, snapshot, queueName.Valid, err
}

// setHeaders sets the headers of an item, and its trace id if the row has none. It returns the error with which a push over HTTP
// would be refused, or nil.
func setHeaders(item *queue.PushItem, raw []byte) (problem *queue.Error) {
	var err error
	if item.Headers, err = queue.ParseHeaders("headers", raw); errors.As(err, &problem) {
		return problem
	}
	if item.TraceID.IsZero() {
		item.TraceID = item.Headers.TraceID()
	}
	return nil
}

// check returns the error with which a push over HTTP would be refused, or nil.
func (s *Sequencer) check(item *queue.PushItem, payloadBytes int64, tooLate bool) *queue.Error {
	for _, err := range []error{
		queue.CheckName("the name of the queue", item.Queue), queue.CheckName("the name of the partition", item.Partition),
		queue.CheckName("the name of the tenant", item.Tenant),
	} {
		if coded := (*queue.Error)(nil); errors.As(err, &coded) {
			return coded
		}
	}
	switch {
	case payloadBytes > s.cfg.MaxPayload:
		return &queue.Error{Code: queue.CodeTooLarge, Message: fmt.Sprintf(
			"the payload has %d bytes: at most %d are allowed (http.max_body_bytes)", payloadBytes, s.cfg.MaxPayload)}
	case utf8.RuneCountInString(item.TransactionID) > queue.MaxTransactionIDRunes:
		return queue.Invalidf("transaction_id is %d characters long: at most %d are allowed",
			utf8.RuneCountInString(item.TransactionID), queue.MaxTransactionIDRunes)
	case tooLate:
		return queue.Invalidf("visible_at is more than a year away")
	}
	rules := portable.Rules{Any: s.cfg.AllowAnyJSON}
	if flaw := rules.Find("payload", item.Payload); flaw != nil {
		return queue.Invalidf("%v", flaw)
	}
	return nil
}
