package load

import (
	"context"
	"sync"
	"time"
)

// Lane is where the messages of a lane go.
type Lane struct{ Queue, Partition string }

// Ref names a message: its lane and its number in the lane, from 0.
type Ref struct{ Lane, N int }

// pushState is the outcome of a push.
type pushState uint8

const (
	pushPending pushState = iota
	pushStored
	pushRefused
	// pushUnclear: there was no answer, or a server error.
	pushUnclear
)

// deliveryState is what happened to a message in a group.
type deliveryState uint8

const (
	undelivered deliveryState = iota
	leased
	// consumed: acknowledged, or delivered with autoAck.
	consumed
	// unacked: the ack was refused or not answered, so the message may be delivered again.
	unacked
)

// earlyDelivery is a delivery before the answer of its push.
type earlyDelivery struct {
	n  int
	at time.Time
}

// laneState is what is known of one lane.
type laneState struct {
	Lane
	pushes         []pushState
	sent, answered []time.Time
	early          []earlyDelivery
	groups         []groupState
}

// groupState is the progress of a group in a lane.
type groupState struct {
	deliveries []deliveryState
	// last is the highest number of a first delivery, -1 before.
	last int
	// leasedUntil is the earliest end of the lease of the last delivery.
	leasedUntil time.Time
	// pop identifies the last pop with messages of the lane; lastInPop is its last number.
	pop, lastInPop int
}

// Counts are what a ledger found, in messages. Deliveries count in each group.
type Counts struct {
	Pushed  int `json:"pushed"`
	Refused int `json:"refused"`
	// Unclear: the push had no answer or a server error.
	Unclear     int `json:"unclear"`
	Delivered   int `json:"delivered"`
	Redelivered int `json:"redelivered"`
	// LostLeases: the ack was refused or had no answer.
	LostLeases int `json:"lostLeases"`
	// Faults.
	Lost       int `json:"lost"`
	Stuck      int `json:"stuck"`
	Duplicates int `json:"duplicates"`
	Disordered int `json:"disordered"`
	Unexpected int `json:"unexpected"`
}

// LedgerConfig describes what is pushed and popped.
type LedgerConfig struct {
	Lanes []Lane
	// Groups is the number of consumer groups, at least 1.
	Groups int
	Lease  time.Duration
	// StuckAfter is the time after the answer of a push when its message counts as stuck; 0
	// is never.
	StuckAfter time.Duration
	// Meter measures deliveries; nil does not.
	Meter *Meter
}

// Ledger compares pushes with deliveries. It is safe for concurrent use.
type Ledger struct {
	config LedgerConfig

	mu    sync.Mutex
	lanes []laneState
	// due counts stored messages without a delivery in each group. pending counts messages of
	// pushes without an answer.
	due, pending int
	// pops counts pops with messages.
	pops int
	// changed closes at the next change; nil if nothing waits for it.
	changed chan struct{}
	counts  Counts
}

// NewLedger returns an empty ledger.
func NewLedger(c LedgerConfig) *Ledger {
	l := &Ledger{config: c, lanes: make([]laneState, len(c.Lanes))}
	for i := range l.lanes {
		lane := &l.lanes[i]
		lane.Lane, lane.groups = c.Lanes[i], make([]groupState, c.Groups)
		for g := range lane.groups {
			lane.groups[g].last = -1
		}
	}
	return l
}

func (l *Ledger) changeLocked() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// begin numbers one message for each entry of lanes and appends them to refs. The push starts
// at start.
func (l *Ledger) begin(refs []Ref, lanes []int, start time.Time) []Ref {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, at := range lanes {
		lane := &l.lanes[at]
		refs = append(refs, Ref{at, len(lane.pushes)})
		lane.pushes = append(lane.pushes, pushPending)
		lane.sent = append(lane.sent, start)
		lane.answered = append(lane.answered, time.Time{})
		for g := range lane.groups {
			lane.groups[g].deliveries = append(lane.groups[g].deliveries, undelivered)
		}
	}
	l.pending += len(lanes)
	return refs
}

// stored records the answer of a push.
func (l *Ledger) stored(refs []Ref, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range refs {
		lane := &l.lanes[r.Lane]
		lane.pushes[r.N], lane.answered[r.N] = pushStored, at
		for g := range lane.groups {
			if lane.groups[g].deliveries[r.N] == undelivered {
				l.due++
			}
		}
		rest := lane.early[:0]
		for _, e := range lane.early {
			if e.n != r.N {
				rest = append(rest, e)
				continue
			}
			l.time(TimeFromAnswer, lane.sent[r.N], at, e.at)
		}
		lane.early = rest
	}
	l.counts.Pushed += len(refs)
	l.pending -= len(refs)
	l.changeLocked()
}

// failed records a push that was refused or whose outcome is unclear.
func (l *Ledger) failed(refs []Ref, state pushState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range refs {
		lane := &l.lanes[r.Lane]
		lane.pushes[r.N] = state
		if state == pushRefused {
			for g := range lane.groups {
				if lane.groups[g].deliveries[r.N] != undelivered {
					l.counts.Unexpected++
				}
			}
		}
	}
	if state == pushRefused {
		l.counts.Refused += len(refs)
	} else {
		l.counts.Unclear += len(refs)
	}
	l.pending -= len(refs)
	l.changeLocked()
}

// pushedLocked reports whether a message was pushed.
func (l *Ledger) pushedLocked(r Ref) bool {
	return r.Lane >= 0 && r.Lane < len(l.lanes) && r.N >= 0 && r.N < len(l.lanes[r.Lane].pushes)
}

// delivered records a delivery of a queue, before its ack. own has the last number of each lane
// at this consumer: with autoAck only that order is known. own is nil with leases.
func (l *Ledger) delivered(queue string, group int, d *Delivery, own map[int]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pops++
	for i := range d.Messages {
		r := d.Messages[i].ref()
		if !l.pushedLocked(r) || l.lanes[r.Lane].Partition != d.Messages[i].Partition || l.lanes[r.Lane].Queue != queue {
			l.counts.Unexpected++
			continue
		}
		l.deliveredLocked(group, r, d, own)
	}
	for i := range d.Messages {
		// The server granted the lease after the request was sent.
		if r := d.Messages[i].ref(); own == nil && l.pushedLocked(r) {
			l.lanes[r.Lane].groups[group].leasedUntil = d.Sent.Add(l.config.Lease)
		}
	}
	l.changeLocked()
}

// deliveredLocked judges one message of a delivery.
func (l *Ledger) deliveredLocked(group int, r Ref, d *Delivery, own map[int]int) {
	lane := &l.lanes[r.Lane]
	g := &lane.groups[group]
	if samePop := g.pop == l.pops; samePop && r.N == g.lastInPop {
		l.counts.Duplicates++
		return
	} else if samePop && r.N < g.lastInPop {
		l.counts.Disordered++
		return
	}
	g.pop, g.lastInPop = l.pops, r.N
	if state := g.deliveries[r.N]; state != undelivered {
		if state == consumed || state == leased && d.At.Before(g.leasedUntil) {
			l.counts.Duplicates++
		} else {
			l.counts.Redelivered++
			g.deliveries[r.N] = leased
		}
		return
	}
	g.deliveries[r.N] = leased
	if own != nil {
		g.deliveries[r.N] = consumed
	}
	l.counts.Delivered++
	l.orderLocked(g, r, lane.pushes[r.N], own)
	l.time(TimeFromStart, lane.sent[r.N], lane.sent[r.N], d.At)
	switch lane.pushes[r.N] {
	case pushStored:
		l.due--
		l.time(TimeFromAnswer, lane.sent[r.N], lane.answered[r.N], d.At)
		if l.config.StuckAfter > 0 && d.At.Sub(lane.answered[r.N]) > l.config.StuckAfter {
			l.counts.Stuck++
		}
	case pushPending:
		lane.early = append(lane.early, earlyDelivery{r.N, d.At})
	case pushRefused:
		l.counts.Unexpected++
	case pushUnclear:
	}
}

// time measures a delivery whose push started at pushed.
func (l *Ledger) time(name string, pushed, start, end time.Time) {
	if l.config.Meter != nil {
		l.config.Meter.Time(name, pushed, start, end)
	}
}

// orderLocked judges the order of a first delivery. A push without an answer may have been
// stored at any later time.
func (l *Ledger) orderLocked(g *groupState, r Ref, state pushState, own map[int]int) {
	if state == pushUnclear {
		return
	}
	last := g.last
	if own != nil {
		var ok bool
		if last, ok = own[r.Lane]; !ok {
			last = -1
		}
	}
	if r.N < last {
		l.counts.Disordered++
		return
	}
	g.last = max(g.last, r.N)
	if own != nil {
		own[r.Lane] = r.N
	}
}

// acked records the outcome of the acks of a delivery.
func (l *Ledger) acked(group int, d *Delivery, ok func(i int) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range d.Messages {
		r := d.Messages[i].ref()
		if !l.pushedLocked(r) {
			continue
		}
		state := &l.lanes[r.Lane].groups[group].deliveries[r.N]
		switch {
		case ok(i):
			*state = consumed
		case *state == leased:
			*state = unacked
			l.counts.LostLeases++
		}
	}
}

// waitBelow blocks until at most most messages are in flight, counted in each group. The error
// is that of ctx.
func (l *Ledger) waitBelow(ctx context.Context, most int) error {
	for {
		l.mu.Lock()
		if l.due+l.pending*l.config.Groups <= most {
			l.mu.Unlock()
			return nil
		}
		changed := l.changedLocked()
		l.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// changedLocked returns a channel that closes at the next change.
func (l *Ledger) changedLocked() <-chan struct{} {
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed
}

// WaitDrained blocks until every stored message is delivered or nothing changes for patience. It
// reports whether every message is delivered. The error is that of ctx.
func (l *Ledger) WaitDrained(ctx context.Context, patience time.Duration) (bool, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		l.mu.Lock()
		if l.due == 0 && l.pending == 0 {
			l.mu.Unlock()
			return true, nil
		}
		changed := l.changedLocked()
		l.mu.Unlock()
		select {
		case <-changed:
			timer.Reset(patience)
		case <-timer.C:
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// Counts returns the counts so far. Lost is the number of messages without a delivery so far.
func (l *Ledger) Counts() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.counts
	c.Lost = l.due
	return c
}
