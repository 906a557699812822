package listen

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// An instance is alone when its listener was proven and heard no other instance for the timeout.
func TestAnInstanceIsAloneAfterTheTimeout(t *testing.T) {
	t.Parallel()
	start := time.Now()
	after := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	p, other := newPeers(15*time.Second), queue.NewID()
	require.False(t, p.alone(after(100)), "the listener is not proven")
	p.trust(true, after(100))
	require.False(t, p.alone(after(114)), "a live instance may not have sent its heartbeat yet")
	require.True(t, p.alone(after(115)))
	p.heard(queue.NewID(), false, after(120))
	require.False(t, p.alone(after(134)), "an instance that has just begun may not have sent its heartbeat yet")
	require.True(t, p.alone(after(135)))
	p.heard(other, true, after(140))
	require.False(t, p.alone(after(1000)), "there is a peer")
	p.remove(other, after(1000))
	require.False(t, p.alone(after(1014)), "another one may be starting")
	require.True(t, p.alone(after(1015)))
	p.trust(false, after(1020))
	require.False(t, p.alone(after(2000)), "nothing can be heard")
	p.trust(true, after(2000))
	require.False(t, p.alone(after(2014)))
	require.True(t, p.alone(after(2015)))
}

// lonely makes a sender and peers that are alone.
func lonely() (*Sender, *peers) {
	s, p := newSender(queue.NewID(), DefaultConfig(), zap.NewNop()), newPeers(time.Second)
	s.alone = p.alone
	p.trust(true, time.Now().Add(-time.Hour))
	return s, p
}

// A hint is queued, or an instance that appears meanwhile is told to look at everything.
func TestNoWithheldHintIsLost(t *testing.T) {
	t.Parallel()
	for range 2000 {
		s, p := lonely()
		var both sync.WaitGroup
		both.Go(func() { s.Send(ready1(1)...) })
		both.Go(func() {
			p.heard(queue.NewID(), true, time.Now())
			s.sendWithheld()
		})
		both.Wait()
		require.False(t, s.pending.empty())
		require.False(t, s.withheld)
	}
}

// Without another instance only canaries are sent. All kinds of hints are withheld, and one resync takes
// their place when another instance appears, when the listener loses its proof, and at the end.
func TestHintsAreWithheldWhileAlone(t *testing.T) {
	t.Parallel()
	for name, send := range map[string]func(*Sender){
		"ready":   func(s *Sender) { s.Send(ready1(1)...) },
		"created": (*Sender).SendCreated,
		"resync":  (*Sender).SendResync,
	} {
		s, _ := lonely()
		send(s)
		require.True(t, s.pending.empty(), name)
		require.EqualValues(t, 1, s.Stats.Withheld.Load(), name)
		s.sendWithheld()
		require.Equal(t, pendingNotifications{resync: true}, s.pending, name)
	}
	s, _ := lonely()
	s.sendWithheld()
	require.True(t, s.pending.empty(), "nothing was withheld")
}

func TestStoppingTellsAnInstanceThatIsStarting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newSenderHarness(t)
		h.alone = func(time.Time) bool { return true }
		h.run(t)
		h.sendCanary(1)
		h.Send(ready1(1)...)
		h.at(time.Second)
		h.stop()
		<-h.ended
		require.Len(t, h.flushes, 2)
		require.True(t, h.flushes[1].bye)
		require.True(t, h.flushes[1].all)
	})
}

func TestALostProofSendsWhatWasWithheld(t *testing.T) {
	t.Parallel()
	r, w, _ := newParts(t)
	w.current = r.current
	r.prove()
	r.peers.trust(true, time.Now().Add(-time.Hour))
	r.sender.Send(ready1(1)...)
	require.True(t, r.sender.pending.empty())
	w.lastProof = time.Now().Add(-time.Hour)
	w.onMissingProof()
	require.False(t, r.Proven())
	require.True(t, r.sender.pending.resync)
	r.sender.pending = pendingNotifications{}
	r.sender.Send(ready1(1)...)
	require.False(t, r.sender.pending.empty(), "the listener is not proven")
}

// A message of another instance makes the reader send what was withheld. A SQL session does not.
func TestAMessageOfAnotherInstanceEndsTheSilence(t *testing.T) {
	t.Parallel()
	r, _, _ := newParts(t)
	r.prove()
	r.peers.trust(true, time.Now().Add(-time.Hour))
	r.sender.Send(ready1(1)...)
	r.handle("1;i=00000000-0000-0000-0000-000000000000;r=1/2@0")
	require.True(t, r.sender.pending.empty())
	r.hear(Notification{Instance: queue.NewID(), Canary: 1})
	require.True(t, r.sender.pending.resync)
}
