package spool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/engine/batch"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/inflight"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// maxCommit bounds the bytes of one transaction of the file. maxQueued bounds the bytes that
	// wait for a transaction.
	maxCommit = 8 << 20
	maxQueued = 64 << 20
	// retryAfter is the Retry-After of a push that the spool refused.
	retryAfter = 5 * time.Second
)

// Pusher stores messages in the database.
type Pusher interface {
	Push(ctx context.Context, items []queue.PushItem) ([]queue.PushResult, error)
}

// Deps are the packages that a Spool uses.
type Deps struct {
	Pusher Pusher
	// Paused returns nil without push maintenance. Otherwise it returns a channel that is closed when push
	// maintenance ends.
	Paused func() <-chan struct{}
	// Pool and Host are used to write the row in belfry.spool.
	Pool    *postgres.Pool
	Host    string
	Sealer  *seal.Sealer
	Metrics *Metrics
	Log     *zap.Logger
}

// Spool keeps pushes on disk. It is safe for concurrent use. See the package doc.
type Spool struct {
	Deps
	cfg   Config
	file  *file
	index *index
	// appends makes pushes share transactions of the file.
	appends *batch.Manager[[]*record]
}

// New returns a Spool, and opens the file in its directory if the file exists. If opening fails, New logs the
// error, Healthy returns it, and Run tries again. Run the Spool, and close it after the last push.
func New(cfg Config, deps Deps) *Spool {
	s := &Spool{Deps: deps, cfg: cfg, index: newIndex()}
	s.file = &file{dir: cfg.Dir, index: s.index}
	s.appends = batch.New(batch.Config{
		MaxSize: maxCommit, QueueSize: maxQueued, MaxFlushes: 1, ConcurrentSize: maxCommit,
	}, s.write, func(error) batch.Verdict { return batch.Fail }, s.Metrics)
	if s.file.exists() {
		if err := s.file.open(); err != nil {
			s.Log.Error("the spool holds messages and cannot be opened", zap.String("path", s.file.path()), zap.Error(err))
		}
	}
	s.Metrics.watch(s.Stats)
	return s
}

// Push stores the items in the spool during push maintenance, and as long as the spool holds messages of
// one of their queues. Otherwise it stores them in the database. Results of the spool have Buffered, a
// transaction id and no other ids.
//
// It blocks until the messages are durable. Errors: every error of Pusher. Errors of the spool:
// CodeUnavailable if writing fails; the file may contain the messages nevertheless. CodeOverloaded if the
// spool would exceed spool.max_bytes; nothing is stored. The error of ctx if ctx ends before the messages are
// written.
func (s *Spool) Push(ctx context.Context, items []queue.PushItem) ([]queue.PushResult, error) {
	if s.Paused() == nil && !s.index.holds(func(yield func(string) bool) {
		for i := range items {
			if !yield(items[i].Queue) {
				return
			}
		}
	}) {
		return s.Pusher.Push(ctx, items)
	}
	results := make([]queue.PushResult, len(items))
	for i := range items {
		if items[i].TransactionID == "" {
			items[i].TransactionID = queue.NewID().String()
		}
		results[i] = queue.PushResult{Buffered: true, TransactionID: items[i].TransactionID}
	}
	records, err := pack(items, s.Sealer, time.Now())
	if err != nil {
		return nil, fmt.Errorf("sealing messages for the spool: %w", err)
	}
	size := int64(0)
	for _, r := range records {
		size += r.size()
	}
	if !s.index.reserve(size, s.cfg.MaxBytes) {
		return nil, &queue.Error{
			Code: queue.CodeOverloaded, RetryAfter: retryAfter,
			Message: "push maintenance is on, and the spool holds spool.max_bytes: send the request again when it has ended",
		}
	}
	defer s.index.release(size) // if the messages were written, the index counts them now
	if err := s.appends.Do(ctx, records, nil, int(size)); err != nil {
		if errors.Is(err, batch.ErrWithdrawn) {
			return nil, err // the sender is gone
		}
		return nil, s.failed(err)
	}
	return results, nil
}

// failed logs that the file cannot be used, and returns the error for the request.
func (s *Spool) failed(err error) error {
	s.Log.Error("the spool cannot be used", zap.String("path", s.file.path()), zap.Error(err))
	return &queue.Error{
		Code: queue.CodeUnavailable, RetryAfter: retryAfter, Err: err,
		Message: "this instance cannot use its spool, which keeps pushes during push maintenance: send the request again later",
	}
}

// write adds the records of many pushes.
func (s *Spool) write(_ context.Context, pushes [][]*record) ([]error, error) {
	var records []*record
	for _, push := range pushes {
		records = append(records, push...)
	}
	return nil, s.file.add(records)
}

// Stats describes the content of a spool.
type Stats struct {
	// Messages is the number of waiting messages. Rejected is the number of messages that the
	// database refused. Bytes is the size of both.
	Messages, Rejected int
	Bytes              int64
}

// Stats returns the current content of the spool.
func (s *Spool) Stats() Stats {
	s.index.mu.Lock()
	defer s.index.mu.Unlock()
	return Stats{Messages: s.index.messages, Rejected: s.index.rejects, Bytes: s.index.bytes}
}

// Healthy returns nil if the spool can be written. During push maintenance, and if the file exists, Healthy opens the
// file.
func (s *Spool) Healthy() error {
	if s.Paused() == nil && !s.file.exists() {
		return nil
	}
	return s.file.open()
}

// Rejection is a message that the database refused.
type Rejection struct {
	Queue, Partition, TransactionID, ProducerSub string
	// Payload is nil if it cannot be decrypted.
	Payload []byte
	Reason  string
	At      time.Time
}

// Rejections returns the oldest rejected messages of this instance. It returns fewer than limit if the messages are too
// large for one page (pkg/process/inflight). Errors: CodeUnavailable, and CodeOverloaded if the server has no memory left
// for the page.
func (s *Spool) Rejections(ctx context.Context, limit int) ([]Rejection, error) {
	out := []Rejection{}
	if s.Stats().Rejected == 0 {
		return out, nil
	}
	memory, read := inflight.From(ctx), 0
	full := memory != nil && !memory.StartPage()
	records, err := s.file.rejected(limit, func(bytes int) bool {
		if memory == nil || full || read > 0 && memory.PageBytesLeft() < int64(bytes) {
			return memory == nil
		}
		full = !memory.Read(bytes)
		read++
		return !full
	})
	switch {
	case err != nil:
		return nil, s.failed(err)
	case full && len(records) == 0:
		return nil, queue.MemoryFull()
	}
	for _, r := range records {
		rejected := &r.Items[0]
		opened, err := rejected.unpack(r.Queue, s.Sealer)
		if err != nil {
			opened.Payload = nil
		}
		out = append(out, Rejection{
			Queue: r.Queue, Partition: rejected.Partition, TransactionID: rejected.TransactionID, ProducerSub: rejected.ProducerSub,
			Payload: opened.Payload, Reason: r.Reason, At: r.At,
		})
	}
	return out, nil
}

// Retry puts the rejected messages at the end of the spool. It returns their number. Errors:
// CodeUnavailable.
func (s *Spool) Retry() (int, error) { return s.changeRejected(s.file.retry) }

// Discard removes the rejected messages. It returns their number. Errors: CodeUnavailable.
func (s *Spool) Discard() (int, error) { return s.changeRejected(s.file.discard) }

func (s *Spool) changeRejected(change func() (int, error)) (int, error) {
	if s.Stats().Rejected == 0 {
		return 0, nil
	}
	n, err := change()
	if err != nil {
		return 0, s.failed(err)
	}
	return n, nil
}

// Close closes the file. Its messages stay for the next start.
func (s *Spool) Close() {
	if held := s.Stats(); held.Messages > 0 {
		s.Log.Warn("messages stay in the spool: an instance with this directory stores them after maintenance",
			zap.String("path", s.file.path()), zap.Int("messages", held.Messages))
	}
	if err := s.file.close(); err != nil {
		s.Log.Error("the spool was not closed", zap.Error(err))
	}
}
