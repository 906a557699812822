package listen

import (
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"pgregory.net/rapid"

	"github.com/belfry-mq/belfry/pkg/queue"
)

func TestASilentPeerExpiresOnce(t *testing.T) {
	start := time.Now()
	after := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	p := newPeers(15 * time.Second)
	a, b := queue.NewID(), queue.NewID()
	p.heard(a, true, after(0))
	p.heard(b, true, after(5))

	silent, next := p.expire(after(14))
	require.Empty(t, silent)
	require.Equal(t, after(15), next)

	silent, next = p.expire(after(15))
	require.Equal(t, []queue.ID{a}, silent)
	require.Equal(t, after(20), next)
	require.Equal(t, []queue.ID{b}, p.ids())

	p.heard(b, false, after(16))
	silent, next = p.expire(after(30))
	require.Empty(t, silent, "a peer expires once, and a message postpones the expiry")
	require.Equal(t, after(31), next)

	p.extendAll(after(31))
	silent, _ = p.expire(after(45))
	require.Empty(t, silent, "the listener could not hear the peer")
	require.Equal(t, []queue.ID{b}, p.ids())

	p.remove(b, after(46))
	silent, next = p.expire(after(100))
	require.Empty(t, silent, "the peer sent a goodbye")
	require.Zero(t, next)
}

func TestOnlyAHeartbeatAddsAPeer(t *testing.T) {
	p := newPeers(time.Second)
	p.heard(queue.NewID(), false, time.Now())
	require.Zero(t, p.count())
}

func TestPeersAreBounded(t *testing.T) {
	p := newPeers(time.Second)
	for range maxPeers + 10 {
		p.heard(queue.NewID(), true, time.Now())
	}
	require.Equal(t, maxPeers, p.count())
}

// An instance is alone when its listener was proven and heard no other instance for the timeout.
func TestAnInstanceIsAloneAfterTheTimeout(t *testing.T) {
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
	require.False(t, p.alone(after(1014)), "another instance may be starting")
	require.True(t, p.alone(after(1015)))
	p.trust(false, after(1020))
	require.False(t, p.alone(after(2000)), "the listener is not proven")
	p.trust(true, after(2000))
	require.False(t, p.alone(after(2014)))
	require.True(t, p.alone(after(2015)))
}

// lonely returns a Sender and the peers of an instance that is alone.
func lonely() (*Sender, *peers) {
	s, p := newSender(queue.NewID(), DefaultConfig(), zap.NewNop()), newPeers(time.Second)
	s.alone = p.alone
	p.trust(true, time.Now().Add(-time.Hour))
	return s, p
}

// Either the hint is queued, or a resync for the instance that appears at the same time.
func TestNoWithheldHintIsLost(t *testing.T) {
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

// Without another instance only canaries are sent. All kinds of hints are withheld. One resync replaces them when another
// instance appears, when the listener loses its proof, and when the sender stops.
func TestHintsAreWithheldWhileAlone(t *testing.T) {
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
	inBubble(t, func(t *testing.T, h *senderHarness) {
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

func TestALostProofSendsAResyncForWithheldHints(t *testing.T) {
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

// A message of another instance makes the reader send a resync for the withheld hints. A message of a SQL session does not.
func TestAMessageOfAnotherInstanceEndsTheSilence(t *testing.T) {
	r, _, _ := newParts(t)
	r.prove()
	r.peers.trust(true, time.Now().Add(-time.Hour))
	r.sender.Send(ready1(1)...)
	r.handle("1;i=00000000-0000-0000-0000-000000000000;r=1/2@0")
	require.True(t, r.sender.pending.empty())
	r.hear(Notification{Instance: queue.NewID(), Canary: 1})
	require.True(t, r.sender.pending.resync)
}

func TestAddKeepsTheEarliestInstant(t *testing.T) {
	soon, later := time.Now(), time.Now().Add(time.Hour)
	var m pendingNotifications
	m.add(Ready(1, 2, later))
	m.add(Ready(1, 2, soon))
	m.add(Ready(1, 2, later))
	require.Equal(t, map[groupPartition]time.Time{{1, 2}: soon}, m.ready)
	m.add(Ready(1, 2, time.Time{}))
	m.add(Ready(1, 2, soon))
	require.Equal(t, map[groupPartition]time.Time{{1, 2}: {}}, m.ready, "the zero time means now, which is before every instant")
}

func TestResyncReplacesTheOtherEntries(t *testing.T) {
	for name, resync := range map[string]func(*pendingNotifications){
		"all":                (*pendingNotifications).resyncOnly,
		"no group":           func(m *pendingNotifications) { m.add(Ready(0, 1, time.Time{})) },
		"negative partition": func(m *pendingNotifications) { m.add(Ready(1, -2, time.Time{})) },
	} {
		var m pendingNotifications
		m.add(Ready(1, 2, time.Time{}))
		m.addCreated()
		resync(&m)
		m.add(Ready(1, 3, time.Time{}))
		m.addCreated()
		require.Equal(t, pendingNotifications{resync: true}, m, name)
	}
}

func TestPendingEntriesAreBounded(t *testing.T) {
	var m, half pendingNotifications
	for i := range int64(maxPending) {
		m.add(Ready(1, i, time.Time{}))
		if i%2 == 0 {
			half.add(Ready(2, i, time.Time{}))
		}
	}
	require.False(t, m.resync)
	m.merge(&half)
	require.Equal(t, pendingNotifications{resync: true}, m, "a failed flush is merged with newer entries")
	for i := range int64(maxPending + 1) {
		half.add(Ready(2, i, time.Time{}))
	}
	require.Equal(t, pendingNotifications{resync: true}, half)
}

func TestPayloadsOfAStatementAreBounded(t *testing.T) {
	var m pendingNotifications
	m.canary, m.goodbye = 5, true
	const long = 1 << 60
	for i := range int64(30_000) {
		m.add(Ready(long, long+i, time.Time{}))
	}
	payloads, entries := m.payloads(queue.ID{})
	require.Equal(t, []string{"1;i=00000000-0000-0000-0000-000000000000;c=5;bye;all"}, payloads)
	require.Equal(t, 1, entries)
	for p := range m.ready {
		if p.partition >= long+5_000 {
			delete(m.ready, p)
		}
	}
	payloads, entries = m.payloads(queue.ID{})
	require.Greater(t, len(payloads), 10)
	require.Equal(t, 5_000, entries)
}

// Merging two sets in any order equals adding their entries one after the other.
func TestMergeEqualsAdd(t *testing.T) {
	type change = func(*pendingNotifications)
	entry := rapid.Custom(func(t *rapid.T) change {
		switch rapid.IntRange(0, 20).Draw(t, "kind") {
		case 0:
			return (*pendingNotifications).addCreated
		case 1:
			return (*pendingNotifications).resyncOnly
		}
		var at time.Time
		if seconds := rapid.Int64Range(0, 3).Draw(t, "at"); seconds > 0 {
			at = time.Unix(seconds, 0)
		}
		if rapid.IntRange(0, 5).Draw(t, "shared") == 0 {
			all := ReadyPartition{Queue: 1, Partition: rapid.Int64Range(1, 3).Draw(t, "partition"), At: at}
			return func(m *pendingNotifications) { m.addPartition(all) }
		}
		ready := Ready(rapid.Int64Range(1, 3).Draw(t, "group"), rapid.Int64Range(0, 3).Draw(t, "partition"), at)
		return func(m *pendingNotifications) { m.add(ready) }
	})
	fill := func(m *pendingNotifications, changes []change) {
		for _, c := range changes {
			c(m)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		first, second := rapid.SliceOf(entry).Draw(t, "first"), rapid.SliceOf(entry).Draw(t, "second")
		var one, a, b, c, d pendingNotifications
		fill(&one, first)
		fill(&one, second)
		one.canary, one.goodbye = 9, true
		fill(&a, first)
		fill(&b, second)
		a.canary, b.canary, b.goodbye = 4, 9, true
		fill(&c, first)
		fill(&d, second)
		c.canary, d.canary, c.goodbye = 9, 4, true
		a.merge(&b)
		d.merge(&c)
		for _, merged := range []pendingNotifications{a, d} {
			if !maps.Equal(one.ready, merged.ready) || !maps.Equal(one.partitions, merged.partitions) {
				t.Fatalf("want %v %v, got %v %v", one.ready, one.partitions, merged.ready, merged.partitions)
			}
			one, merged := one, merged
			one.ready, merged.ready, one.partitions, merged.partitions = nil, nil, nil, nil
			require.Equal(t, one, merged)
		}
		if one.empty() {
			t.Fatal("a set with a canary is not empty")
		}
	})
	require.True(t, new(pendingNotifications).empty())
}
