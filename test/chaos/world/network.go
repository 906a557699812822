package world

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// leastLag and mostLag limit the delay of each piece of traffic on a slow connection.
const (
	leastLag = 2 * time.Millisecond
	mostLag  = 40 * time.Millisecond
)

// networkPart is a part of the network that can break.
type networkPart struct {
	name string
	at   func(*server) link
}

var networkParts = []networkPart{
	{"clients", func(s *server) link { return s.clients }},
	{"database", func(s *server) link { return s.database }},
	{"listener", func(s *server) link { return s.listener }},
}

func networkFaults() []Fault {
	var faults []Fault
	for _, p := range networkParts {
		faults = append(faults, freeze(p), cut(p), silence(p), lag(p))
	}
	return append(faults, swallow(), loseCommits())
}

// freeze stops all traffic for a while. Nothing is lost.
func freeze(p networkPart) Fault {
	return Fault{Name: "freeze-" + p.name, run: func(ctx context.Context, w *World, choose *rand.Rand) (string, error) {
		s, d := w.anyServer(choose), hold(choose)
		thaw := p.at(s).freeze()
		defer thaw()
		Pause(ctx, d)
		return fmt.Sprintf("%s, %s", s.name, d), nil
	}}
}

// cut closes all connections, several times.
func cut(p networkPart) Fault {
	return Fault{Name: "cut-" + p.name, run: func(ctx context.Context, w *World, choose *rand.Rand) (string, error) {
		s, times := w.anyServer(choose), 1+choose.IntN(5)
		for range times {
			p.at(s).cut()
			if !Pause(ctx, between(choose, 0, 500*time.Millisecond)) {
				break
			}
		}
		return fmt.Sprintf("%s, %d times", s.name, times), nil
	}}
}

// silence makes the existing connections silent forever, like a firewall that lost its state. New connections work.
// Neither side is informed, so the fault lasts until a server must have noticed the
// silence.
func silence(p networkPart) Fault {
	return Fault{Name: "silence-" + p.name, run: func(ctx context.Context, w *World, choose *rand.Rand) (string, error) {
		s := w.anyServer(choose)
		p.at(s).freezeOld()
		Pause(ctx, canaryInterval+canaryTimeout+hold(choose))
		return s.name, nil
	}}
}

// lag delays all traffic by a few milliseconds.
func lag(p networkPart) Fault {
	return Fault{Name: "slow-" + p.name, run: func(ctx context.Context, w *World, choose *rand.Rand) (string, error) {
		s, d, late := w.anyServer(choose), hold(choose), between(choose, leastLag, mostLag).Round(time.Millisecond)
		p.at(s).lag(late)
		defer p.at(s).lag(0)
		Pause(ctx, d)
		return fmt.Sprintf("%s, traffic delayed by %s for %s", s.name, late, d), nil
	}}
}

// swallow loses notifications on a connection that otherwise works.
func swallow() Fault {
	return Fault{Name: "lose-notifications", run: func(ctx context.Context, w *World, choose *rand.Rand) (string, error) {
		s, d := w.anyServer(choose), hold(choose)
		s.listener.swallow(true)
		defer s.listener.swallow(false)
		Pause(ctx, d)
		return fmt.Sprintf("%s, %s", s.name, d), nil
	}}
}

// loseCommits lets a COMMIT reach Postgres, loses the answer, and closes the connection.
func loseCommits() Fault {
	return Fault{Name: "lose-commits", run: func(ctx context.Context, w *World, choose *rand.Rand) (string, error) {
		s, times := w.anyServer(choose), 1+choose.IntN(20)
		defer s.database.cutCommit(false)
		for range times {
			s.database.cutCommit(true)
			if !Pause(ctx, between(choose, 0, 200*time.Millisecond)) {
				break
			}
		}
		return fmt.Sprintf("%s, up to %d commits", s.name, times), nil
	}}
}
