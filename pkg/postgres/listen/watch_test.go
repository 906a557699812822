package listen

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// newParts returns the reader and the watcher of a listener that has a session but no database. It also returns the reasons of
// the resyncs of this listener.
func newParts(t *testing.T) (r *reader, w *watcher, resyncs *[]string) {
	t.Helper()
	const url = "postgres://nobody@localhost/none"
	cfg, resyncs := DefaultConfig(), new([]string)
	sender, err := NewSender(url, queue.NewID(), cfg, nil, zap.NewNop())
	require.NoError(t, err)
	sender.key.set([]byte("a key"))
	l, err := NewListener(url, sender, cfg, Callbacks{
		OnReady: func(Notification) {}, OnResync: func(reason string) { *resyncs = append(*resyncs, reason) }, OnState: func(State) {},
		OnPeerLeft: func(queue.ID) {},
	}, zap.NewNop())
	require.NoError(t, err)
	lifetime, cut := context.WithCancelCause(t.Context())
	t.Cleanup(func() { cut(nil) })
	r = &l.reader
	r.current = &session{cancelableConn: &cancelableConn{lifetime: lifetime, cut: cut}, listenTimer: stoppedTimer()}
	w = &watcher{Listener: l, silenceTimer: stoppedTimer(), proofTimer: stoppedTimer(), peerTimer: stoppedTimer()}
	t.Cleanup(func() {
		w.silenceTimer.Stop()
		w.proofTimer.Stop()
	})
	return r, w, resyncs
}

// hear handles a notification that an instance has sent.
func (r *reader) hear(m Notification) {
	r.handle(r.sender.key.sign(Encode(m)[0], r.lastNumber[m.Instance]+1))
}

func TestOnResyncIsCalledBeforeTheFirstCanary(t *testing.T) {
	t.Parallel()
	r, w, resyncs := newParts(t)
	go r.listenStarted(t.Context())
	s := <-r.listening
	require.Equal(t, []string{"the listener connected"}, *resyncs)
	require.Zero(t, w.lastCanary.Load())
	w.startSession(s)
	require.EqualValues(t, 1, w.firstCanary)
	require.EqualValues(t, 1, r.sender.pending.canary)
}

// When LISTEN takes effect, each peer gets a full timeout.
func TestPeersGetAFullTimeoutWhenListenTakesEffect(t *testing.T) {
	t.Parallel()
	r, _, _ := newParts(t)
	id := queue.NewID()
	r.peers.heard(id, true, time.Now().Add(-time.Hour))
	go r.listenStarted(t.Context())
	<-r.listening
	silent, _ := r.peers.expire(time.Now().Add(r.cfg.PeerTimeout - time.Second))
	require.Empty(t, silent)
	silent, _ = r.peers.expire(time.Now().Add(r.cfg.PeerTimeout))
	require.Equal(t, []queue.ID{id}, silent)
}

func TestOnlyACanaryAfterListenIsAwaited(t *testing.T) {
	t.Parallel()
	r, w, _ := newParts(t)
	w.canarySent(1)
	require.Zero(t, w.awaited, "there is no session")
	w.lastCanary.Store(4)
	w.startSession(r.current)
	w.canarySent(4)
	require.Zero(t, w.awaited, "canary 4 may have been committed before LISTEN took effect")
	w.canarySent(5)
	require.EqualValues(t, 5, w.awaited)
	w.canarySent(6)
	require.EqualValues(t, 5, w.awaited, "a later canary does not extend the time of the first canary")
	w.canaryHeard(4)
	require.EqualValues(t, 5, w.awaited)
	w.canaryHeard(6)
	require.Zero(t, w.awaited)
	w.canarySent(6)
	require.Zero(t, w.awaited, "canary 6 was heard before its commit was known")
}

// Any role can send canaries in the name of this instance, and repeat old canaries. These prove nothing.
func TestAForgedCanaryProvesNothing(t *testing.T) {
	t.Parallel()
	r, w, _ := newParts(t)
	w.startSession(r.current)
	own := Encode(Notification{Instance: r.sender.instance, Canary: 1})[0]
	other := channelKey{}
	other.set([]byte("another key"))
	for _, forged := range []string{own, own + ";n=1", own + ";n=1;m=", other.sign(own, 1), (&channelKey{}).sign(own, 1)} {
		r.handle(forged)
	}
	require.False(t, r.Proven())
	require.Empty(t, r.heard)
	require.EqualValues(t, 5, r.Unreadable())
	r.hear(Notification{Instance: r.sender.instance, Canary: 1})
	require.EqualValues(t, 1, <-r.heard)
	r.change(func(State) State { return StateReconnecting })
	r.handle(r.sender.key.sign(own, 1))
	require.False(t, r.Proven(), "the canary was heard before")
	require.Empty(t, r.heard)
	r.handle(r.sender.key.sign(own, 2))
	require.True(t, r.Proven())
}

// If many instances die at once, they cause at most one resync a second.
func TestManySilentPeersCauseOneResyncASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, w, resyncs := newParts(t)
		w.current = &session{cancelableConn: &cancelableConn{lifetime: t.Context()}}
		w.peerTimer = time.NewTimer(w.cfg.PeerTimeout)
		defer w.peerTimer.Stop()
		began := time.Now()
		for i := range 2 * maxPeers {
			w.peers.heard(queue.NewID(), true, began.Add(time.Duration(i)*time.Millisecond))
		}
		for w.peers.count() > 0 {
			w.expirePeers(<-w.peerTimer.C)
		}
		require.Len(t, *resyncs, 3, "%v: the peers fall silent within 1,024 ms", *resyncs)
	})
}

func TestAnAwaitedCanaryTakesPrecedenceOverTheProofTimer(t *testing.T) {
	t.Parallel()
	r, w, resyncs := newParts(t)
	w.startSession(r.current)
	r.handleOwnCanary(1)
	w.canaryHeard(1)
	w.lastProof = time.Now().Add(-time.Hour)

	w.canarySent(2)
	w.onMissingProof()
	require.True(t, w.Proven())
	w.canaryHeard(2)

	w.lastProof = time.Now()
	w.onMissingProof()
	require.True(t, w.Proven(), "a proof has just arrived")

	w.lastProof = time.Now().Add(-time.Hour)
	w.onMissingProof()
	require.False(t, w.Proven())
	require.Equal(t, []string{"the listener lost its proof"}, *resyncs)
	w.onMissingProof()
	require.Len(t, *resyncs, 1)
}

func TestACanaryOnACutSessionIsNoProof(t *testing.T) {
	t.Parallel()
	r, w, _ := newParts(t)
	w.startSession(r.current)
	w.onSilence()
	require.ErrorIs(t, r.current.cause(), errUnheard)
	r.handleOwnCanary(1)
	require.False(t, r.Proven())
}

func TestACutConnectionDoesNotDial(t *testing.T) {
	t.Parallel()
	lifetime, cut := context.WithCancelCause(t.Context())
	reason := errors.New("the connection was cut")
	cut(reason)
	_, err := dial(t.Context(), lifetime, "tcp4", "127.0.0.1:1")
	require.ErrorIs(t, err, reason)
}

// looped returns a listener whose watch loop runs in a synctest bubble. Its session hears the notifications of its own sender,
// except while freeze has frozen Postgres.
func looped(t *testing.T) (r *reader, states func() []State, freeze, thaw func()) {
	t.Helper()
	r, _, _ = newParts(t)
	heard := make(chan State, 100)
	r.callbacks.OnState = func(s State) { heard <- s }
	states = func() (all []State) { // since the last call
		synctest.Wait()
		for len(heard) > 0 {
			all = append(all, <-heard)
		}
		return all
	}
	gate := make(chan struct{}, 1)
	r.sender.notify = func(ctx context.Context, payloads []string) error {
		select {
		case gate <- struct{}{}:
			defer func() { <-gate }()
		case <-ctx.Done():
			return ctx.Err()
		}
		for _, payload := range payloads {
			r.handle(r.sender.key.sign(payload, r.lastNumber[r.sender.instance]+1))
		}
		return nil
	}
	ctx, stop := context.WithCancel(t.Context())
	var loop sync.WaitGroup
	loop.Go(func() { r.watch(ctx) })
	t.Cleanup(func() {
		stop()
		loop.Wait()
	})
	r.listenStarted(ctx)
	return r, states, func() { gate <- struct{}{} }, func() { <-gate }
}

// runSender runs the sender until the end of the test.
func runSender(t *testing.T, s *Sender) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
}

// Without a sender, the listener gets no canary and is not proven, although its session works. The first canary proves it.
func TestWithoutASenderTheListenerIsNotProven(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, states, _, _ := looped(t)
		<-time.After(r.cfg.CanaryInterval + r.cfg.CanaryTimeout - time.Millisecond)
		require.Empty(t, states())
		<-time.After(time.Hour)
		require.Equal(t, []State{StateReconnecting}, states(), "not deaf: no canary was sent")
		runSender(t, r.sender)
		require.Equal(t, []State{StateProven}, states())
		require.False(t, r.current.isCut(), "the connection stayed open")
	})
}

func TestAListenerWithoutCanariesIsNotProven(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, states, freeze, thaw := looped(t)
		runSender(t, r.sender)
		<-time.After(time.Hour)
		require.Equal(t, []State{StateProven}, states())
		freeze()
		<-time.After(2*r.cfg.CanaryInterval + r.cfg.CanaryTimeout)
		require.Equal(t, []State{StateReconnecting}, states())
		_, since := r.State()
		require.GreaterOrEqual(t, since, r.cfg.CanaryInterval+r.cfg.CanaryTimeout)
		thaw()
		require.Equal(t, []State{StateProven}, states())
		require.False(t, r.current.isCut())
	})
}

// A silent peer is reported as left after the timeout. A peer that said goodbye is reported once.
func TestASilentPeerExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _, _, _ := looped(t)
		silent, polite := queue.NewID(), queue.NewID()
		left, resyncs := make(chan queue.ID, 10), make(chan string, 10)
		r.callbacks.OnPeerLeft = func(id queue.ID) { left <- id }
		r.callbacks.OnResync = func(reason string) { resyncs <- reason }
		for _, id := range []queue.ID{silent, polite} {
			r.hear(Notification{Instance: id, Canary: 1})
		}
		r.hear(Notification{Instance: polite, Goodbye: true})
		require.Equal(t, polite, <-left)
		<-time.After(r.cfg.PeerTimeout - time.Millisecond)
		synctest.Wait()
		require.Empty(t, left)
		require.Equal(t, 1, r.Peers())
		<-time.After(time.Millisecond)
		synctest.Wait()
		require.Equal(t, silent, <-left)
		require.Equal(t, "silent peers: 1, such as "+silent.String(), <-resyncs)
		require.Zero(t, r.Peers())
		<-time.After(time.Hour)
		synctest.Wait()
		require.Empty(t, left)
	})
}

// While the network is silent, the listener cannot hear the peers, so they do not expire.
func TestPeersDoNotExpireWithoutASession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _, _, _ := looped(t)
		r.peers.heard(queue.NewID(), true, time.Now())
		r.current.cut(errSilent)
		<-time.After(time.Hour)
		synctest.Wait()
		require.Equal(t, 1, r.Peers())
	})
}

// Many requests cause a few calls at once, then one call in each interval. One call follows the last request, and no further call
// follows.
func TestAPacedCallComesAfterTheLastRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _, _, _ := looped(t)
		began := time.Now()
		var calls []time.Duration
		r.look.call = func(string) { calls = append(calls, time.Since(began)) }
		const requests = 5000
		for range requests {
			r.look.ask("a test")
			<-time.After(time.Millisecond)
		}
		<-time.After(time.Hour)
		synctest.Wait()
		require.Zero(t, calls[0], "the first call does not wait")
		require.GreaterOrEqual(t, calls[len(calls)-1], requests*time.Millisecond-time.Millisecond, "a call covers the last request")
		require.LessOrEqual(t, calls[len(calls)-1], requests*time.Millisecond+lookInterval)
		require.LessOrEqual(t, len(calls), lookBurst+1+int(requests*time.Millisecond/lookInterval))
	})
}
