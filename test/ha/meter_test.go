//go:build installed && linux

package ha

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// probePause is the pause between two probes, and so the precision of a gap.
	probePause = 20 * time.Millisecond
	// insertTimeout limits the wait of an insert for the synchronous standby. connectTimeout limits the time of a connection
	// to a node.
	insertTimeout  = 10 * time.Second
	connectTimeout = time.Second
)

// gaps finds the longest time between two successes.
type gaps struct {
	mu      sync.Mutex
	last    time.Time
	longest time.Duration
}

// success records a success.
func (g *gaps) success() {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if !g.last.IsZero() {
		g.longest = max(g.longest, now.Sub(g.last))
	}
	g.last = now
}

// take returns the longest gap since the last call.
func (g *gaps) take() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	longest := g.longest
	g.longest = 0
	return longest
}

// since reports whether there was a success after an instant.
func (g *gaps) since(at time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last.After(at)
}

// probeNode commits a row again and again on one node, each time on a new connection, until ctx ends. A node that is no primary
// refuses. No part of Belfry takes part.
func probeNode(ctx context.Context, n *node, g *gaps) {
	for pause(ctx, probePause) {
		if insert(ctx, n) == nil {
			g.success()
		}
	}
}

func insert(ctx context.Context, n *node) error {
	connecting, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := pgx.Connect(connecting, n.url("belfry")+"&target_session_attrs=read-write")
	if err != nil {
		return err
	}
	ctx, cancel = context.WithTimeout(ctx, insertTimeout)
	defer cancel()
	defer func() { _ = conn.PgConn().Conn().Close() }() // a regular close could block
	_, err = conn.Exec(ctx, "INSERT INTO public.meter VALUES (now())")
	return err
}
