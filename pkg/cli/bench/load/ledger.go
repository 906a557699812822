package load

import (
	"context"
	"sync"
	"time"
)

// Lane is the target of the messages of one lane.
type Lane struct{ Queue, Partition string }

// Ref identifies a message: its lane and its number in the lane. Both start at 0.
type Ref struct{ Lane, N int }

// pushState is the outcome of a push.
type pushState uint8

const (
	pushPending pushState = iota
	pushStored
	pushRefused
	// pushUnclear means that the push got no answer, or a server error.
	pushUnclear
)

// deliveryState is the state of a message in a group.
type deliveryState uint8

const (
	undelivered deliveryState = iota
	leased
	// consumed means acknowledged, or delivered with autoAck.
	consumed
	// unacked means that the ack was refused or got no answer. The message may be delivered again.
	unacked
)

// message is the push of one message. answered is the time of the answer to the push.
type message struct {
	state          pushState
	sent, answered time.Time
}

// laneState is the state of one lane.
type laneState struct {
	Lane
	messages []message
	groups   []groupState
}

// groupState is the progress of a group in a lane.
type groupState struct {
	deliveries []deliveryState
	// next is one more than the highest number of a first delivery.
	next int
	// leasedUntil is the earliest possible end of the lease of the last delivery.
	leasedUntil time.Time
	// pop identifies the last pop with messages of the lane. lastInPop is the last message number of this pop.
	pop, lastInPop int
}

// Counts has the results of a ledger, in messages. A delivery counts once for each group.
type Counts struct {
	Pushed  int `json:"pushed"`
	Refused int `json:"refused"`
	// Unclear counts pushes without an answer or with a server error.
	Unclear     int `json:"unclear"`
	Delivered   int `json:"delivered"`
	Redelivered int `json:"redelivered"`
	// LostLeases counts acks that were refused or got no answer.
	LostLeases int `json:"lostLeases"`
	// The following fields count faults.
	Lost       int `json:"lost"`
	Stuck      int `json:"stuck"`
	Duplicates int `json:"duplicates"`
	Disordered int `json:"disordered"`
	Unexpected int `json:"unexpected"`
}

// LedgerConfig describes the pushes and pops that a ledger compares.
type LedgerConfig struct {
	Lanes []Lane
	// Groups is the number of consumer groups, at least 1.
	Groups int
	Lease  time.Duration
	// StuckAfter is the maximum time from the answer of a push to a delivery. A later message counts as stuck. 0
	// means no limit.
	StuckAfter time.Duration
	// Meter measures deliveries. It may be nil.
	Meter *Meter
}

// Ledger compares pushes with deliveries. It is safe for concurrent use.
type Ledger struct {
	config LedgerConfig

	mu    sync.Mutex
	lanes []laneState
	// early has the times of deliveries that came before the answer to the push.
	early map[Ref][]time.Time
	// due counts stored messages without a delivery, once for each group. pending counts messages of pushes without
	// an answer.
	due, pending int
	// pops counts pops with messages.
	pops int
	// changed closes at the next change. It is nil if no caller waits.
	changed chan struct{}
	counts  Counts
}

// NewLedger returns an empty ledger.
func NewLedger(c LedgerConfig) *Ledger {
	l := &Ledger{config: c, lanes: make([]laneState, len(c.Lanes)), early: map[Ref][]time.Time{}}
	for i := range l.lanes {
		l.lanes[i] = laneState{Lane: c.Lanes[i], groups: make([]groupState, c.Groups)}
	}
	return l
}

func (l *Ledger) changeLocked() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// begin assigns numbers to the messages of a push that starts at start.
func (l *Ledger) begin(refs []Ref, start time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range refs {
		lane := &l.lanes[refs[i].Lane]
		refs[i].N = len(lane.messages)
		lane.messages = append(lane.messages, message{sent: start})
		for g := range lane.groups {
			lane.groups[g].deliveries = append(lane.groups[g].deliveries, undelivered)
		}
	}
	l.pending += len(refs)
}

// answered records the outcome of a push.
func (l *Ledger) answered(refs []Ref, state pushState, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range refs {
		lane := &l.lanes[r.Lane]
		m := &lane.messages[r.N]
		m.state, m.answered = state, at
		for g := range lane.groups {
			switch delivered := lane.groups[g].deliveries[r.N] != undelivered; {
			case state == pushStored && !delivered:
				l.due++
			case state == pushRefused && delivered:
				l.counts.Unexpected++
			}
		}
		if state == pushStored {
			for _, delivered := range l.early[r] {
				l.config.Meter.Time(TimeFromAnswer, m.sent, at, delivered)
			}
		}
		delete(l.early, r)
	}
	switch state {
	case pushStored:
		l.counts.Pushed += len(refs)
	case pushRefused:
		l.counts.Refused += len(refs)
	default:
		l.counts.Unclear += len(refs)
	}
	l.pending -= len(refs)
	l.changeLocked()
}

// pushedLocked reports whether a message was pushed.
func (l *Ledger) pushedLocked(r Ref) bool {
	return r.Lane >= 0 && r.Lane < len(l.lanes) && r.N >= 0 && r.N < len(l.lanes[r.Lane].messages)
}

// delivered records a delivery of a queue before its ack. With autoAck, own has the next expected number of each lane
// for this consumer, because only the order within one consumer is known. With leases, own is nil.
func (l *Ledger) delivered(queue string, group int, d *Delivery, own map[int]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pops++
	for i := range d.Messages {
		r := d.Messages[i].ref()
		if !l.pushedLocked(r) || l.lanes[r.Lane].Lane != (Lane{queue, d.Messages[i].Partition}) {
			l.counts.Unexpected++
			continue
		}
		l.deliveredLocked(group, r, d, own)
	}
	for i := range d.Messages {
		// The lease starts after Sent, so this is its earliest possible end.
		if r := d.Messages[i].ref(); own == nil && l.pushedLocked(r) {
			l.lanes[r.Lane].groups[group].leasedUntil = d.Sent.Add(l.config.Lease)
		}
	}
	l.changeLocked()
}

// deliveredLocked checks one message of a delivery.
func (l *Ledger) deliveredLocked(group int, r Ref, d *Delivery, own map[int]int) {
	m, g := &l.lanes[r.Lane].messages[r.N], &l.lanes[r.Lane].groups[group]
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
	l.orderLocked(g, r, m.state, own)
	l.config.Meter.Time(TimeFromStart, m.sent, m.sent, d.At)
	switch m.state {
	case pushStored:
		l.due--
		l.config.Meter.Time(TimeFromAnswer, m.sent, m.answered, d.At)
		if l.config.StuckAfter > 0 && d.At.Sub(m.answered) > l.config.StuckAfter {
			l.counts.Stuck++
		}
	case pushPending:
		l.early[r] = append(l.early[r], d.At)
	case pushRefused:
		l.counts.Unexpected++
	case pushUnclear:
	}
}

// orderLocked checks the order of a first delivery. It ignores a push without an answer, because the server may have
// stored the message at any later time.
func (l *Ledger) orderLocked(g *groupState, r Ref, state pushState, own map[int]int) {
	if state == pushUnclear {
		return
	}
	next := g.next
	if own != nil {
		next = own[r.Lane]
	}
	if r.N < next {
		l.counts.Disordered++
		return
	}
	g.next = max(g.next, r.N+1)
	if own != nil {
		own[r.Lane] = r.N + 1
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

// WaitDrained blocks until every stored message is delivered, or nothing changes for patience. It reports whether
// every message is delivered. Its only error is the error of ctx.
func (l *Ledger) WaitDrained(ctx context.Context, patience time.Duration) (bool, error) {
	return l.waitBelow(ctx, 0, patience)
}

// waitBelow is like WaitDrained, but returns when no more than most messages are in flight. A message counts once for
// each group.
func (l *Ledger) waitBelow(ctx context.Context, most int, patience time.Duration) (bool, error) {
	for {
		l.mu.Lock()
		if l.due+l.pending*l.config.Groups <= most {
			l.mu.Unlock()
			return true, nil
		}
		if l.changed == nil {
			l.changed = make(chan struct{})
		}
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-time.After(patience):
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// countStuck adds n messages that only Search found.
func (l *Ledger) countStuck(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.Stuck += n
}

// Counts returns the current counts. Lost is the number of messages without a delivery so far.
func (l *Ledger) Counts() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.counts
	c.Lost = l.due
	return c
}
