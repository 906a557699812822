// Package progress shows on a terminal how far a long command is.
//
// It may import no other package of Belfry.
package progress

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

const (
	// after is how long a command runs before it shows progress.
	after = time.Second
	// interval is the least time between two pictures.
	interval = 200 * time.Millisecond
	barWidth = 30
)

// Progress is what a terminal shows of a command. A nil Progress shows nothing. Its methods are called by any
// goroutine.
type Progress struct {
	out  io.Writer
	unit string

	mutex sync.Mutex
	began time.Time
	next  time.Time
	shown bool
}

// Start returns a progress that counts units.
func Start(out io.Writer, unit string, now time.Time) *Progress {
	return &Progress{out: out, unit: unit, began: now, next: now.Add(after)}
}

// Show says that count units are done, which is the share of the work from 0 to 1. A share below 0 is not known.
func (p *Progress) Show(count int64, share float64, now time.Time) {
	if p == nil {
		return
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if now.Before(p.next) {
		return
	}
	p.next, p.shown = now.Add(interval), true
	text := fmt.Sprintf("%d %s, %.0f/s", count, p.unit, float64(count)/now.Sub(p.began).Seconds())
	if share >= 0 {
		full := int(min(share, 1) * barWidth)
		text = fmt.Sprintf("[%s%s] %3.0f%%  %s", strings.Repeat("=", full), strings.Repeat(" ", barWidth-full), min(share, 1)*100, text)
	}
	_, _ = fmt.Fprintf(p.out, "\r\x1b[K%s", text) // the work goes on if nobody can see it
}

// End removes what is shown.
func (p *Progress) End() {
	if p == nil {
		return
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.shown {
		_, _ = io.WriteString(p.out, "\r\x1b[K")
	}
	p.shown = false
}
