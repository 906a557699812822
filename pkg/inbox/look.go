package inbox

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// nothing is a snapshot that holds no row.
	nothing = "3:3:"
	// lookRows is how many rows one look covers.
	lookRows = 25_000
	// chunkRows and chunkBytes bound what one transaction moves: pushes to the
	// same partitions wait for it.
	chunkRows  = 2000
	chunkBytes = 4 << 20
)

// row is a row of the inbox.
type row struct {
	id   int64
	item queue.PushItem
	// wrong is why it cannot be sequenced; nil: as far as is known it can.
	wrong *queue.Error
}

// look reads rows and hands them to move, chunk by chunk, while it reads the next
// one. All rows of a look are from one snapshot. It returns the snapshot, and
// whether there may be more rows in it.
func (s *Sequencer) look(ctx context.Context, move func([]row) error) (snapshot string, more bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	chunks, reading := make(chan []row), make(chan error, 1)
	found := 0
	go func() {
		defer close(chunks)
		reading <- s.readAll(ctx, func(seen string) { snapshot = seen }, func(chunk []row) bool {
			found += len(chunk)
			select {
			case chunks <- chunk:
				return true
			case <-ctx.Done():
				return false
			}
		})
	}()
	for chunk := range chunks {
		if err == nil {
			if err = move(chunk); err != nil {
				cancel()
			}
		}
	}
	if read := <-reading; err == nil {
		err = read
	}
	return snapshot, found == lookRows, err
}

// lookFrom returns what looks for rows that snapshot seen did not hold. When it held
// none, what waits may be more than can be gone through before a statement's time is
// up, so only what is wanted is read.
func lookFrom(seen string) string {
	if seen == nothing {
		return sqlFirst
	}
	return sqlLook
}

// readAll reads the rows of one look and hands them on in chunks, until hand says
// that nobody wants more.
func (s *Sequencer) readAll(ctx context.Context, saw func(snapshot string), hand func([]row) bool) error {
	rows, err := s.own.Query(ctx, lookFrom(s.seen), s.seen, int64(lookRows), s.cfg.MaxPayload)
	if err != nil {
		return fmt.Errorf("looking into the inbox: %w", err)
	}
	defer rows.Close()
	var chunk []row
	bytes := 0
	for rows.Next() {
		one, snapshot, ok, err := s.read(rows)
		if err != nil {
			return fmt.Errorf("reading a row of the inbox: %w", err)
		}
		if snapshot != "" {
			saw(snapshot)
		}
		if !ok {
			continue
		}
		bytes += len(one.item.Payload)
		chunk = append(chunk, one)
		if len(chunk) == chunkRows || bytes >= chunkBytes {
			if !hand(chunk) {
				return ctx.Err()
			}
			chunk, bytes = nil, 0
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("reading the inbox: %w", err)
	}
	if len(chunk) > 0 {
		hand(chunk)
	}
	return nil
}

// read reads one row. ok is false when it brings only the snapshot.
func (s *Sequencer) read(rows pgx.Rows) (one row, snapshot string, ok bool, err error) {
	var seen, queueName, partition, transactionID pgtype.Text
	var id, bytes pgtype.Int8
	var trace pgtype.UUID
	var visible pgtype.Timestamptz
	var tooLate bool
	var payload []byte
	if err := rows.Scan(&seen, &id, &queueName, &partition, &payload, &bytes, &transactionID, &trace, &visible, &tooLate); err != nil {
		return row{}, "", false, err
	}
	if !queueName.Valid {
		return row{}, seen.String, false, nil // gone since, or there was none
	}
	one = row{id: id.Int64, item: queue.PushItem{
		Queue: queueName.String, Partition: partition.String, TransactionID: transactionID.String, Payload: payload,
	}}
	if trace.Valid {
		one.item.TraceID = trace.Bytes
	}
	if visible.Valid {
		one.item.VisibleAt = visible.Time
	}
	one.wrong = s.wrong(&one.item, bytes.Int64, tooLate)
	return one, seen.String, true, nil
}

// wrong says what keeps an item from being sequenced: what an HTTP producer would
// be refused for.
func (s *Sequencer) wrong(item *queue.PushItem, bytes int64, tooLate bool) *queue.Error {
	switch {
	case bytes > s.cfg.MaxPayload:
		return &queue.Error{Code: queue.CodeTooLarge, Message: fmt.Sprintf(
			"the payload has %d bytes: at most %d are allowed (http.max_body_bytes)", bytes, s.cfg.MaxPayload)}
	case len(item.Queue) > queue.MaxNameBytes:
		return queue.Invalidf("the name of the queue is %d bytes long: at most %d are allowed", len(item.Queue), queue.MaxNameBytes)
	case len(item.Partition) > queue.MaxNameBytes:
		return queue.Invalidf("the name of the partition is %d bytes long: at most %d are allowed", len(item.Partition), queue.MaxNameBytes)
	case utf8.RuneCountInString(item.TransactionID) > queue.MaxTransactionIDRunes:
		return queue.Invalidf("transaction_id is %d characters long: at most %d are allowed",
			utf8.RuneCountInString(item.TransactionID), queue.MaxTransactionIDRunes)
	case tooLate:
		return queue.Invalidf("visible_at is more than a year away")
	default:
		return nil
	}
}
