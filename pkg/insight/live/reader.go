package live

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// readTimeout bounds one read. The hub repeats a failed read after Config.ReadInterval.
	readTimeout = 5 * time.Second
	// auditInterval is the minimum time between two reads of the audit. maxAudit is the maximum number of rows of a read.
	auditInterval, maxAudit = time.Second, 200
	// auditOverlap is how far a read starts before the latest known row. A row has the start time of its transaction,
	// so it can become visible after a later row.
	auditOverlap = time.Minute
)

// Reader reads the database. Each method runs one bounded statement. Errors: CodeUnavailable.
type Reader interface {
	// Groups returns the groups whose lag or number of dead letters has reached its threshold.
	Groups(ctx context.Context, lag time.Duration, deadLetters int) (Groups, error)
	// Audit returns up to limit rows of the audit since an instant, the latest first.
	Audit(ctx context.Context, since time.Time, limit int64) ([]audit.Row, error)
}

// GroupState is a consumer group that is beyond a threshold.
type GroupState struct {
	Queue, Group string
	// Age is the age of the oldest message that the group has not finished.
	Age time.Duration
	// LateAfter is from which age on the group is late. Zero: it is never late.
	LateAfter time.Duration
	// Behind is true if the group is late. DeadLetters is true if the number of dead letters has.
	Behind, DeadLetters bool
}

// Groups are the groups beyond a threshold.
type Groups struct {
	List []GroupState
	// NextIn is how long until the next group gets behind if it finishes no message. HasNext is false if no group can.
	NextIn  time.Duration
	HasNext bool
	// Now is the clock of the database.
	Now time.Time
}

type groupName struct{ queue, group string }

// beyond is the published state of a group that is beyond a threshold.
type beyond struct {
	GroupState
	lag, dead bool
}

func (b *beyond) lagEvent(is bool) api.LateGroup {
	return api.LateGroup{Queue: b.Queue, Group: b.Group, Beyond: is, Seconds: b.Age.Round(time.Millisecond).Seconds(), ThresholdSeconds: b.LateAfter.Seconds()}
}

// readState has the results of the reads, and says which reads are due.
type readState struct {
	// thresholds and audit are true if a read is due as soon as the minimum interval has passed.
	thresholds, audit bool
	// failed is true if the last read failed.
	failed bool
	// crossing is when the next group gets behind, or zero if no group will.
	crossing time.Time
	// lastThresholds and lastAudit are when the last reads started.
	lastThresholds, lastAudit time.Time
	beyond                    map[groupName]beyond
	// since is the first read of the groups, by the clock of the database. Older rows of the audit are not events.
	since time.Time
	// latest is the instant of the latest row of the audit. seen has the result and counts of the rows of the last read.
	latest time.Time
	seen   map[queue.ID]string
}

// movedLocked makes a read of the groups due, because a group may have crossed a threshold.
func (h *Hub) movedLocked() {
	if !h.reads.thresholds {
		h.reads.thresholds = true
		h.wakeLocked()
	}
}

// dueLocked returns when the reads are due. A zero instant means that no read is due before the next change.
func (r *readState) dueLocked(known bool, interval time.Duration) (thresholds, audit time.Time) {
	soonest := r.lastThresholds.Add(interval)
	switch {
	case r.thresholds:
		thresholds = soonest
	case r.crossing.After(soonest):
		thresholds = r.crossing
	case !r.crossing.IsZero():
		thresholds = soonest
	}
	if r.audit && known {
		audit = r.lastAudit.Add(auditInterval)
	}
	return thresholds, audit
}

// runReads reads the database when a read is due, until ctx ends.
func (h *Hub) runReads(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		now := time.Now()
		h.mu.Lock()
		var thresholds, audit time.Time
		if h.watchedLocked(now) {
			thresholds, audit = h.reads.dueLocked(!h.reads.since.IsZero(), h.cfg.ReadInterval)
		}
		h.mu.Unlock()
		switch {
		case !thresholds.IsZero() && !thresholds.After(now):
			h.readGroups(ctx, now)
			continue
		case !audit.IsZero() && !audit.After(now):
			h.readAudit(ctx, now)
			continue
		}
		timer.Stop()
		for _, at := range []time.Time{audit, thresholds} {
			if !at.IsZero() && (audit.IsZero() || !at.After(audit)) {
				timer.Reset(at.Sub(now))
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-h.wakeRead:
		case <-timer.C:
		}
	}
}

// readGroups reads the groups beyond a threshold, and publishes the changes since the last read.
func (h *Hub) readGroups(ctx context.Context, now time.Time) {
	h.mu.Lock()
	h.reads.thresholds, h.reads.lastThresholds, h.reads.crossing = false, now, time.Time{}
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	found, err := h.Reader.Groups(ctx, h.LateAfter, h.cfg.DeadLettersThreshold)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.watchedLocked(time.Now()) {
		return
	}
	h.logLocked("the lag and the dead letters", err)
	if err != nil {
		h.reads.thresholds = true
	} else {
		h.foundLocked(&found)
	}
	h.known = true
	for w := range h.watchers {
		h.greetLocked(w)
	}
}

// logLocked logs the first of several failures to read.
func (h *Hub) logLocked(what string, err error) {
	if err != nil && !h.reads.failed {
		h.Log.Warn("the watchers of events do not get "+what+", because a read failed; the server will repeat the read", zap.Error(err))
	}
	h.reads.failed = err != nil
}

func (h *Hub) foundLocked(found *Groups) {
	r := &h.reads
	if r.since.IsZero() {
		r.since, r.latest = found.Now, found.Now
	}
	if found.HasNext {
		r.crossing = time.Now().Add(found.NextIn)
	}
	before := r.beyond
	r.beyond = make(map[groupName]beyond, len(found.List))
	for _, g := range found.List {
		name := groupName{g.Queue, g.Group}
		r.beyond[name] = beyond{GroupState: g, lag: g.Behind, dead: g.DeadLetters}
	}
	for name, now := range r.beyond {
		h.changedLocked(before[name], now, now)
	}
	for name, was := range before {
		if _, still := r.beyond[name]; !still {
			gone := beyond{GroupState: GroupState{Queue: was.Queue, Group: was.Group, LateAfter: was.LateAfter}}
			h.changedLocked(was, gone, gone)
		}
	}
}

// changedLocked publishes an event for each threshold that a group has crossed.
func (h *Hub) changedLocked(was, is, shown beyond) {
	e := Event{Queue: shown.Queue, Group: shown.Group}
	if was.lag != is.lag {
		e.Type, e.Data = TypeLag, shown.lagEvent(is.lag)
		h.publishLocked(e)
	}
	if was.dead != is.dead {
		e.Type, e.Data = TypeDeadLetters, api.DeadLetterGroup{Queue: e.Queue, Group: e.Group, Beyond: is.dead, Threshold: h.cfg.DeadLettersThreshold}
		h.publishLocked(e)
	}
}

// changes maps actions of the audit to the events that they cause.
var changes = map[string]Type{
	audit.ConfigureQueue: TypeQueueChanged, audit.DeleteQueue: TypeQueueDeleted, audit.DeleteGroup: TypeGroupDeleted,
	audit.SetSubscriptionStart: TypeGroupChanged, audit.SeekGroup: TypeGroupSeeked,
	audit.PauseDelivery: TypeQueuePaused, audit.ResumeDelivery: TypeQueueResumed,
	audit.OpenBreaker: TypeBreakerOpened, audit.ProbeBreaker: TypeBreakerHalfOpened, audit.CloseBreaker: TypeBreakerClosed,
}

// readAudit reads the new rows of the audit, and publishes them and the changes that they record.
func (h *Hub) readAudit(ctx context.Context, now time.Time) {
	h.mu.Lock()
	h.reads.audit, h.reads.lastAudit = false, now
	from := h.reads.latest.Add(-auditOverlap)
	if from.Before(h.reads.since) {
		from = h.reads.since
	}
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	rows, err := h.Reader.Audit(ctx, from, maxAudit)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.watchedLocked(time.Now()) {
		return
	}
	h.logLocked("the audit", err)
	if err != nil {
		h.reads.audit, h.reads.lastAudit = true, now.Add(h.cfg.ReadInterval)
		return
	}
	seen := make(map[queue.ID]string, len(rows))
	for i := len(rows) - 1; i >= 0; i-- {
		r := &rows[i]
		state := r.Result + string(r.Counts)
		before, known := h.reads.seen[r.ID]
		if !known {
			h.changeLocked(r)
		}
		if !known || before != state {
			h.auditLocked(r)
		}
		seen[r.ID] = state
		if r.At.After(h.reads.latest) {
			h.reads.latest = r.At
		}
	}
	h.reads.seen = seen
}

// changeLocked publishes the change that a row records.
func (h *Hub) changeLocked(r *audit.Row) {
	kind, ok := changes[r.Action]
	if !ok || r.Result != audit.OK {
		return
	}
	if kind == TypeQueuePaused || kind == TypeQueueResumed || kind == TypeQueueChanged {
		h.movedLocked() // it changes who is late
	}
	if r.Group != "" {
		switch kind {
		case TypeQueuePaused:
			kind = TypeGroupPaused
		case TypeQueueResumed:
			kind = TypeGroupResumed
		default: // the type of the other actions does not depend on the group
		}
	}
	h.publishLocked(Event{Type: kind, At: r.At, Queue: r.Queue, Partition: r.Partition, Group: r.Group})
}

func (h *Hub) auditLocked(r *audit.Row) {
	h.publishLocked(Event{Type: TypeAudit, At: r.At, Queue: r.Queue, Partition: r.Partition, Group: r.Group, Data: api.AuditEvent{
		ID: r.ID.String(), Subject: r.Subject, TokenID: r.TokenID, Address: r.Address, RequestID: r.RequestID, Action: r.Action,
		TransactionID: r.TransactionID, Parameters: r.Parameters, Counts: r.Counts, Result: r.Result,
	}})
}
