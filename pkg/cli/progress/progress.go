// Package progress shows the progress of a long command on a terminal.
//
// The package imports no other package of Belfry.
package progress

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

const (
	// after is the run time after which a command shows progress.
	after = time.Second
	// interval is the minimum time between two updates of the line.
	interval = 200 * time.Millisecond
	barWidth = 30
)

// Progress shows the progress of a command on a terminal. A nil Progress shows nothing. Progress is safe for
// concurrent use.
type Progress struct {
	out  io.Writer
	unit string

	mutex sync.Mutex
	began time.Time
	next  time.Time
	shown bool
}

// Start returns a Progress. unit is the name of the counted objects.
func Start(out io.Writer, unit string, now time.Time) *Progress {
	return &Progress{out: out, unit: unit, began: now, next: now.Add(after)}
}

// Show shows that count units are done. share is the done share of the work, from 0 to 1. A negative share is
// unknown.
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
	_, _ = fmt.Fprintf(p.out, "\r\x1b[K%s", text) // the command continues if the line cannot be written
}

// End clears the line.
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
