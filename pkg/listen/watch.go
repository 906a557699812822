package listen

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"
)

// watcher is the side of the listener that watches it from outside the read loop,
// which cannot notice that nothing arrives. Its fields belong to the watch loop.
type watcher struct {
	*Listener
	current *session // the latest in which LISTEN came into force; may be over
	number  uint64   // of the latest canary
	probe   uint64   // of the first canary of the current session
	heard   uint64   // of the latest canary that was heard
	awaited uint64   // of the canary that silence waits for; 0 when it does not

	silence *time.Timer // the awaited canary is overdue
	proof   *time.Timer // there was no proof for too long, for whatever reason
	peerDue *time.Timer // some peer may have been silent for too long
}

func (l *Listener) watch(ctx context.Context) {
	w := &watcher{Listener: l, silence: stopped(), proof: stopped(), peerDue: time.NewTimer(l.cfg.PeerTimeout)}
	defer w.silence.Stop()
	defer w.proof.Stop()
	defer w.peerDue.Stop()
	beat := time.NewTicker(l.cfg.CanaryInterval)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			w.beat()
		case s := <-l.listening:
			beat.Reset(l.cfg.CanaryInterval)
			w.begin(s)
		case number := <-l.sender.beaten:
			w.sent(number)
		case number := <-l.heard:
			w.hear(number)
		case <-w.silence.C:
			w.silent()
		case <-w.proof.C:
			w.unproven()
		case now := <-w.peerDue.C:
			w.expire(now)
		}
	}
}

// stopped returns a timer that does not run.
func stopped() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// beat sends a canary, with or without a connection of ours to hear it: the others
// hear it as well and know that we live.
func (w *watcher) beat() {
	w.number++
	w.sender.beat(w.number)
}

// begin probes a new session.
func (w *watcher) begin(s *session) {
	w.current, w.awaited = s, 0
	w.silence.Stop()
	w.proof.Reset(w.cfg.CanaryInterval + w.cfg.CanaryTimeout)
	w.beat()
	w.probe = w.number
}

// sent is called when a canary has been committed, so that it must be heard soon.
// One that was committed before LISTEN was in force need not be.
func (w *watcher) sent(number uint64) {
	if w.current == nil || w.awaited != 0 || number < w.probe || number <= w.heard {
		return
	}
	w.awaited = number
	w.silence.Reset(w.cfg.CanaryTimeout)
}

func (w *watcher) hear(number uint64) {
	w.heard = max(w.heard, number)
	if w.heard >= w.awaited {
		w.awaited = 0
		w.silence.Stop()
	}
	w.proof.Reset(w.cfg.CanaryInterval + w.cfg.CanaryTimeout)
}

// silent cuts a session whose canary was sent and not heard.
func (w *watcher) silent() {
	w.awaited = 0
	cause := errSilent
	if !w.current.proved.Load() {
		cause = errDeaf
	}
	w.current.cut(cause) // nothing happens when it is over already
}

// unproven is called when there was no proof for too long. When a canary is awaited
// silent will judge the session; otherwise canaries cannot be sent, which says
// nothing about the session but leaves it without a proof.
func (w *watcher) unproven() {
	if w.awaited != 0 || w.current.over() {
		return
	}
	var was State
	w.change(func(now State) State {
		fresh := time.Since(w.lastProof) < w.cfg.CanaryInterval // one came just now
		if now == StateStarting || now == StateProven && !fresh {
			was = now
			return StateReconnecting
		}
		return now
	})
	if was == "" {
		return
	}
	w.log.Warn("the listener cannot be proven: no canary of ours could be sent for too long; until then waiting requests poll the database")
	if was == StateProven {
		w.doubt("the listener lost its proof")
	}
}

// expire looks for peers that fell silent. While we hear nothing at all it is not
// they who are silent.
func (w *watcher) expire(now time.Time) {
	next := now.Add(w.cfg.PeerTimeout)
	if w.current != nil && !w.current.over() {
		silent, earliest := w.peers.expire(now)
		for _, id := range silent {
			w.log.Warn("another instance fell silent without a goodbye", zap.Stringer("instance", id))
			w.doubt(fmt.Sprintf("peer %s silent", id))
		}
		if !earliest.IsZero() {
			next = earliest
		}
	}
	w.peerDue.Reset(next.Sub(now))
}
