package notify

import (
	"container/heap"
	"time"
)

// due is when an entry wakes and where it is in the heap.
type due struct {
	at    time.Time
	place int // notDue: not in the heap
}

const notDue = -1

// promiseLocked makes e wake at an instant to come, unless it wakes earlier
// anyway. Nothing is lost by that: at the earlier instant all tickets of the key
// leave, and who looks again announces the later one.
func (n *Notifier[K]) promiseLocked(e *entry[K], at time.Time) {
	switch {
	case e.due.place == notDue:
		e.due.at = at
		heap.Push(&n.due, e)
	case at.Before(e.due.at):
		e.due.at = at
		heap.Fix(&n.due, e.due.place)
	}
	n.armLocked()
}

// forgetLocked takes e out of the heap if it is in there. The caller arms the
// timer.
func (n *Notifier[K]) forgetLocked(e *entry[K]) {
	if e.due.place != notDue {
		heap.Remove(&n.due, e.due.place)
	}
}

// armLocked sets the timer to the earliest instant, or stops it when there is
// none. It does nothing when the timer is set to that instant or rings for it.
//
// Stop and Reset say whether a ring was taken back, so rings counts exactly those
// that will happen. A ring takes the lock before it is counted down, hence never
// before it is counted up here.
func (n *Notifier[K]) armLocked() {
	next := n.nextLocked()
	if next.Equal(n.armed) {
		return
	}
	n.armed = next
	switch {
	case next.IsZero():
		if n.timer.Stop() {
			n.rings.Done()
		}
	case n.timer == nil:
		n.rings.Add(1)
		n.timer = time.AfterFunc(time.Until(next), n.ring)
	case !n.timer.Reset(time.Until(next)):
		n.rings.Add(1)
	}
}

// nextLocked returns the earliest instant, or zero.
func (n *Notifier[K]) nextLocked() time.Time {
	if len(n.due) == 0 {
		return time.Time{}
	}
	return n.due[0].due.at
}

// ring is called by the timer, in a goroutine of its own. Close waits for it.
func (n *Notifier[K]) ring() {
	defer n.rings.Done()
	tell(n.ringing())
}

// ringing takes out the tickets of all keys that are due.
func (n *Notifier[K]) ringing() []*Ticket[K] {
	n.mu.Lock()
	defer n.mu.Unlock()
	var woken []*Ticket[K]
	for now := time.Now(); len(n.due) > 0 && !n.due[0].due.at.After(now); {
		woken = n.wakeLocked(woken, n.due[0])
	}
	n.timed += uint64(len(woken))
	n.armLocked()
	return woken
}

// dueHeap is a container/heap of entries, the earliest first.
type dueHeap[K comparable] []*entry[K]

func (h dueHeap[K]) Len() int           { return len(h) }
func (h dueHeap[K]) Less(i, j int) bool { return h[i].due.at.Before(h[j].due.at) }

func (h dueHeap[K]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].due.place, h[j].due.place = i, j
}

// Push implements heap.Interface.
func (h *dueHeap[K]) Push(x any) {
	e := x.(*entry[K]) //nolint:errcheck // only promiseLocked pushes, and only entries
	e.due.place = len(*h)
	*h = append(*h, e)
}

// Pop implements heap.Interface.
func (h *dueHeap[K]) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil // keeps nobody alive
	*h = (*h)[:last]
	e.due.place = notDue
	return e
}
