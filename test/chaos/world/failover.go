package world

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/belfry-mq/belfry/test/pgtest"
)

const (
	failsOver = "fail-over"
	// stopsStandby stops the synchronous standby for a while, and then fails over to it.
	stopsStandby = "stop-synchronous-standby"
	// loses is the name of a fault that loses acknowledged messages: see Losing.
	loses = "fail-over-behind"
)

// replicating are the faults that need a standby.
var replicating = []string{failsOver, stopsStandby, loses}

// Losing returns faults that run only if the user names them. They lose acknowledged messages, so that a test can
// prove that the judge reports the loss.
func Losing() []Fault {
	behind := func(ctx context.Context, w *World, choose *rand.Rand) (string, error) {
		return w.failOver(ctx, choose, true)
	}
	return []Fault{{Name: loses, run: behind}}
}

// failOver copies the running primary to a synchronous standby, ends the primary after a while, and promotes the
// standby. The primary is killed or fenced. Fenced means that its network becomes silent, it is stopped, and its
// network works again some time after the promotion. The next failover goes in the other direction, with a new copy.
func failOver(ctx context.Context, w *World, choose *rand.Rand) (string, error) {
	return w.failOver(ctx, choose, false)
}

// failOver fails over to the standby. With behind, the standby is asynchronous and receives nothing after the copy.
func (w *World) failOver(ctx context.Context, choose *rand.Rand, behind bool) (string, error) {
	w.postgres.Lock()
	defer w.postgres.Unlock()
	following, fenced, silent := hold(choose), choose.IntN(2) == 0, between(choose, 0, longestDown)
	// The end of the run does not interrupt the failover.
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), clusterPatience)
	defer cancel()
	old, next := w.leading, 1-w.leading
	if err := pgtest.Follow(whole, w.nodes[old], w.nodes[next]); err != nil {
		return "", err
	}
	if behind {
		if err := pgtest.Forsake(whole, w.nodes[old], w.nodes[next]); err != nil {
			return "", err
		}
	}
	Pause(ctx, following)
	thaw, how := func() {}, "killed"
	var err error
	if fenced {
		how = fmt.Sprintf("fenced, silent for %s", silent.Round(time.Millisecond))
		thaw = w.silencePostgres(old)
		err = w.nodes[old].Stop(whole)
	} else {
		err = w.nodes[old].Kill()
	}
	defer thaw()
	if err != nil {
		return "", fmt.Errorf("ending the primary: %w", err)
	}
	begun := time.Now()
	if err := pgtest.Promote(whole, w.nodes[next]); err != nil {
		return "", fmt.Errorf("promoting the standby: %w", err)
	}
	w.leading = next
	took := time.Since(begun).Round(time.Millisecond)
	if fenced {
		Pause(ctx, silent)
	}
	return fmt.Sprintf("node-%d was %s, node-%d promoted in %s", old+1, how, next+1, took), nil
}

// stopSynchronousStandby copies the running primary to a synchronous standby and stops the standby. Commits then wait
// until the servers cancel the wait. The canceled commits are visible. Clients repeat their requests, which takes a
// second request timeout. Then the primary is killed, and the standby, which lacks these commits, is started and
// promoted.
func stopSynchronousStandby(ctx context.Context, w *World, choose *rand.Rand) (string, error) {
	w.postgres.Lock()
	defer w.postgres.Unlock()
	following, alone := hold(choose), between(choose, 2*requestTimeout, 4*requestTimeout)
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), clusterPatience)
	defer cancel()
	old, next := w.leading, 1-w.leading
	if err := pgtest.Follow(whole, w.nodes[old], w.nodes[next]); err != nil {
		return "", err
	}
	Pause(ctx, following)
	rewound := w.Rewinding()
	if err := w.nodes[next].Stop(whole); err != nil {
		return "", fmt.Errorf("stopping the standby: %w", err)
	}
	Pause(ctx, alone)
	if err := w.nodes[old].Kill(); err != nil {
		return "", fmt.Errorf("ending the primary: %w", err)
	}
	if err := w.nodes[next].Restart(whole); err != nil {
		return "", fmt.Errorf("starting the standby: %w", err)
	}
	if err := pgtest.Promote(whole, w.nodes[next]); err != nil {
		return "", fmt.Errorf("promoting the standby: %w", err)
	}
	w.leading = next
	rewound()
	return fmt.Sprintf("node-%d was without its standby for %s, and node-%d was promoted", old+1, alone.Round(time.Millisecond), next+1), nil
}

// silencePostgres freezes the links from all servers to a node until the caller calls thaw.
func (w *World) silencePostgres(node int) (thaw func()) {
	var frozen []func()
	for _, s := range w.servers {
		frozen = append(frozen, s.database[node].Freeze(), s.listener[node].Freeze())
	}
	return func() {
		for _, thaw := range frozen {
			thaw()
		}
	}
}
