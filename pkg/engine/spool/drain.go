package spool

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/process/backoff"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// maxPush (messages) and maxPushBytes bound one push to the database. A single record may be
	// larger.
	maxPush      = 500
	maxPushBytes = 4 << 20
	// reopenInterval is the time between two attempts to open a file that another process uses.
	reopenInterval = 5 * time.Second
	// isolateAfter is the number of failed attempts after which the spool searches for the message
	// that causes an unexpected error.
	isolateAfter = 5
)

// drainBackoff is the pause before the next attempt for a queue whose messages were not stored.
var drainBackoff = backoff.Policy{Initial: 500 * time.Millisecond, Max: 10 * time.Second, Multiplier: 2}

// Run stores the messages of the spool while push maintenance is off, and keeps the row of belfry.spool
// current, until ctx ends. It returns nil.
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
		if s.file.exists() && s.file.open() != nil { // another process has not ended yet
			wait = reopenInterval
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

// drain stores the first records of a queue. After a failure, the queue gets its next attempt after
// a pause.
func (s *Spool) drain(ctx context.Context, refs []ref) {
	name := refs[0].queue
	err := s.move(ctx, refs)
	if err == nil || ctx.Err() != nil {
		return
	}
	attempts := s.index.postpone(name, time.Now(), func(attempts int) time.Duration {
		return drainBackoff.Delay(attempts, rand.Float64()) //nolint:gosec // jitter
	})
	s.Log.Warn("messages of the spool were not stored; they stay in the spool, which tries again",
		zap.String("queue", name), zap.Int("attempts", attempts), zap.Error(err))
}

// move stores records and removes them from the file. After an error, some of the first records may be stored
// and removed.
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
			e.push, e.decryptErr = e.item.unpack(r.Queue, s.Sealer)
			entries = append(entries, e)
		}
	}
	failed := p.store(ctx, entries)
	if len(p.suspects) > 0 && p.stored == 0 {
		return p.internal // the database may refuse every message now
	}
	if p.settled == 0 {
		return failed
	}
	for _, r := range p.refused {
		s.Log.Warn("a message of the spool cannot be stored; GET /api/v1/system/maintenance/rejected shows it",
			zap.String("queue", r.Queue), zap.String("partition", r.Items[0].Partition),
			zap.String("transaction_id", r.Items[0].TransactionID), zap.String("reason", r.Reason))
	}
	return errors.Join(s.file.settle(p.progress(refs, records)), failed)
}

// entry is one message on its way to the database.
type entry struct {
	queue string
	item  *item
	push  queue.PushItem
	// decryptErr is the error of decrypting the payload, or nil.
	decryptErr error
}

// pass stores entries in order and finds the entries that cannot be stored.
type pass struct {
	pusher Pusher
	// isolate makes the pass also refuse a message that fails with CodeInternal while other
	// messages are stored.
	isolate bool
	// settled is the number of leading entries that were stored, refused or became suspects. stored
	// is the number of stored messages.
	settled, stored int
	refused         []*record
	// suspects are entries that failed with CodeInternal before the pass stored a message. The database may
	// have refused every message then.
	suspects []entry
	// internal is the last error of a suspect.
	internal error
}

// store halves the entries until it has found the entry that cannot be stored, and refuses this entry. It
// returns an error that is not caused by an entry. Then the later entries are not settled.
func (p *pass) store(ctx context.Context, entries []entry) error {
	var items []queue.PushItem
	for i := range entries {
		if entries[i].decryptErr == nil {
			items = append(items, entries[i].push)
		}
	}
	var err error
	if len(items) > 0 {
		_, err = p.pusher.Push(ctx, items)
	}
	code := queue.CodeOf(err)
	refusable := p.refuses(code)
	switch {
	case err == nil:
		for i := range entries {
			if entries[i].decryptErr != nil {
				p.refuse(entries[i], entries[i].decryptErr)
			}
		}
		p.stored += len(items)
		p.settled += len(entries)
		return p.confirm(ctx)
	case !refusable && code != queue.CodeQueueFull:
		return err
	case len(entries) > 1: // the database may accept some of them
		half := len(entries) / 2
		if err := p.store(ctx, entries[:half]); err != nil {
			return err
		}
		return p.store(ctx, entries[half:])
	case !refusable:
		return err
	}
	p.settled++
	if code == queue.CodeInternal && p.stored == 0 {
		p.suspects, p.internal = append(p.suspects, entries[0]), err
		return nil
	}
	p.refuse(entries[0], err)
	return nil
}

// confirm tries the suspects again after a message was stored, and refuses a suspect that fails. It returns an
// error that is not caused by a suspect. Then no entry is settled, and the spool later pushes the stored
// messages again as duplicates.
func (p *pass) confirm(ctx context.Context) error {
	if p.stored == 0 {
		return nil
	}
	for _, e := range p.suspects {
		_, err := p.pusher.Push(ctx, []queue.PushItem{e.push})
		switch {
		case err == nil:
		case p.refuses(queue.CodeOf(err)):
			p.refuse(e, err)
		default:
			p.settled = 0
			return err
		}
	}
	p.suspects = nil
	return nil
}

// refuses reports whether the pass refuses a single message that fails with the code.
func (p *pass) refuses(code queue.Code) bool {
	return code == queue.CodeInvalid || code == queue.CodeTooLarge || code == queue.CodeInternal && p.isolate
}

func (p *pass) refuse(e entry, reason error) {
	p.refused = append(p.refused, &record{Queue: e.queue, Items: []item{*e.item}, Reason: reason.Error(), At: time.Now()})
}

// progress returns which records are done, and which messages were refused.
func (p *pass) progress(refs []ref, records []*record) progress {
	out := progress{queue: refs[0].queue, refused: p.refused}
	left := p.settled
	for i, r := range records {
		if left < len(r.Items) {
			if left > 0 {
				rest := *r
				rest.Items = r.Items[left:]
				out.part, out.rest = refs[i], &rest
			}
			break
		}
		left -= len(r.Items)
		out.done = refs[:i+1]
	}
	return out
}
