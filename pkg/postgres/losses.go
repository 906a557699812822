package postgres

import (
	"sync/atomic"
	"time"
)

// losses is what related pools share.
type losses struct {
	opened     time.Time
	signal     chan struct{}
	broken     atomic.Bool
	allRetired atomic.Int64 // the time of the latest call of RetireConnections
}

// now returns the time since the opening of the first pool. A clock that is set back
// does not change it.
func (l *losses) now() time.Duration { return time.Since(l.opened) }

// Losses returns a channel that receives after a connection was lost, and after
// SignalLoss. The last commits over that connection may lack the work that follows a
// commit. One signal may stand for several losses.
func (l *losses) Losses() <-chan struct{} { return l.signal }

// ReportBrokenConnection signals a loss and makes TakeBroken return true. A connection
// of this instance, or of an instance that died, broke: no wake may have followed its
// last commits.
func (l *losses) ReportBrokenConnection() {
	l.broken.Store(true)
	l.SignalLoss()
}

// TakeBroken reports whether ReportBrokenConnection was called since the previous call
// of TakeBroken.
func (l *losses) TakeBroken() bool { return l.broken.Swap(false) }

// SignalLoss makes Losses receive. It does not block.
func (l *losses) SignalLoss() {
	select {
	case l.signal <- struct{}{}:
	default: // a pending signal covers this one
	}
}

// RetireConnections makes the related pools stop using the connections that exist now.
// Work that is under way over such a connection continues.
func (l *losses) RetireConnections() { l.allRetired.Store(int64(l.now())) }
