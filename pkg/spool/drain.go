package spool

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/backoff"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// maxPush and maxPushBytes bound one push of the drain. A single record may be larger.
	maxPush      = 500
	maxPushBytes = 4 << 20
	// isolateAfter is after how many attempts a message with an unexpected error is looked for.
	isolateAfter = 5
)

// drainBackoff is how long a queue rests that could not be stored.
var drainBackoff = backoff.Policy{Initial: 500 * time.Millisecond, Max: 10 * time.Second, Multiplier: 2}

// Run stores what the spool holds whenever push maintenance is off, and reports what it holds, until ctx
// ends. It returns nil.
func (s *Spool) Run(ctx context.Context) error {
	var reporting sync.WaitGroup
	defer reporting.Wait()
	reporting.Go(func() { s.runReports(ctx) })
	for ctx.Err() == nil {
		if ended := s.Paused(); ended != nil {
			select {
			case <-ctx.Done():
			case <-ended:
			}
			continue
		}
		refs, wait := s.index.next(time.Now(), maxPush, maxPushBytes)
		if refs != nil {
			s.drain(ctx, refs)
			continue
		}
		if s.index.empty() {
			if err := s.file.removeEmpty(); err != nil {
				s.Log.Warn("the empty file of the spool was not removed", zap.String("path", s.file.path()), zap.Error(err))
			}
		}
		var due <-chan time.Time
		if wait >= 0 {
			due = time.After(wait)
		}
		select {
		case <-ctx.Done():
		case <-due:
		case <-s.index.changed:
		}
	}
	return nil
}

// drain stores the first records of a queue, or lets the queue rest.
func (s *Spool) drain(ctx context.Context, refs []ref) {
	name := refs[0].queue
	err := s.move(ctx, refs)
	if err == nil || ctx.Err() != nil {
		return
	}
	attempts := s.index.postpone(name, time.Now(), func(attempts int) time.Duration {
		return drainBackoff.Delay(attempts, rand.Float64()) //nolint:gosec // jitter
	})
	s.Log.Warn("messages of the spool were not stored; they stay in it and are tried again",
		zap.String("queue", name), zap.Int("attempts", attempts), zap.Error(err))
}

// move stores records and removes them from the file.
func (s *Spool) move(ctx context.Context, refs []ref) error {
	records, err := s.file.read(refs)
	if err != nil {
		return err
	}
	p := pass{pusher: s.Pusher, isolate: s.index.attempts(refs[0].queue) >= isolateAfter}
	var entries []entry
	for _, r := range records {
		for i := range r.Items {
			e := entry{queue: r.Queue, item: &r.Items[i]}
			if e.push, err = e.item.unpack(r.Queue, s.Sealer); err != nil {
				p.refuse(e, err)
				continue
			}
			entries = append(entries, e)
		}
	}
	if len(entries) > 0 {
		err = p.store(ctx, entries)
	}
	if err == nil && p.internal != nil && p.stored == 0 {
		err = p.internal // the database may refuse everything now
	}
	if err != nil {
		return err
	}
	for _, r := range p.refused {
		s.Log.Warn("the database refused a message of the spool; GET /api/v1/status/buffers/rejected shows it",
			zap.String("queue", r.Queue), zap.String("partition", r.Items[0].Partition),
			zap.String("transaction_id", r.Items[0].TransactionID), zap.String("reason", r.Reason))
	}
	return s.file.settle(refs, p.refused)
}

// entry is one message on its way to the database.
type entry struct {
	queue string
	item  *item
	push  queue.PushItem
}

// pass stores entries in order and finds the ones that the database refuses.
type pass struct {
	pusher Pusher
	// isolate: a message that fails with CodeInternal, while others are stored, is refused too.
	isolate bool
	stored  int
	refused []*record
	// internal is the last error with CodeInternal of a refused message.
	internal error
}

// store halves the entries until only those are left that are refused. It returns an error that is not about
// single messages. Some entries may then be stored; a repetition finds duplicates.
func (p *pass) store(ctx context.Context, entries []entry) error {
	items := make([]queue.PushItem, len(entries))
	for i := range entries {
		items[i] = entries[i].push
	}
	_, err := p.pusher.Push(ctx, items)
	if err == nil {
		p.stored += len(entries)
		return nil
	}
	code := queue.CodeOf(err)
	if code != queue.CodeInvalid && code != queue.CodeTooLarge && (code != queue.CodeInternal || !p.isolate) {
		return err
	}
	if len(entries) > 1 {
		half := len(entries) / 2
		if err := p.store(ctx, entries[:half]); err != nil {
			return err
		}
		return p.store(ctx, entries[half:])
	}
	if code == queue.CodeInternal {
		p.internal = err
	}
	p.refuse(entries[0], err)
	return nil
}

func (p *pass) refuse(e entry, reason error) {
	p.refused = append(p.refused, &record{Queue: e.queue, Items: []item{*e.item}, Reason: reason.Error(), At: time.Now()})
}
