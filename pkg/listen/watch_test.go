package listen

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// newParts returns the two loops of a listener that has a session and no database, and
// the reasons of its resyncs.
func newParts(t *testing.T) (r *reader, w *watcher, resyncs *[]string) {
	t.Helper()
	const url = "postgres://nobody@localhost/none"
	cfg, resyncs := DefaultConfig(), new([]string)
	sender, err := NewSender(url, queue.NewID(), cfg, nil, zap.NewNop())
	require.NoError(t, err)
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
	require.Zero(t, w.awaited, "it may have been committed before LISTEN took effect")
	w.canarySent(5)
	require.EqualValues(t, 5, w.awaited)
	w.canarySent(6)
	require.EqualValues(t, 5, w.awaited, "a later canary does not extend the time of the first")
	w.canaryHeard(4)
	require.EqualValues(t, 5, w.awaited)
	w.canaryHeard(6)
	require.Zero(t, w.awaited)
	w.canarySent(6)
	require.Zero(t, w.awaited, "it was heard before its commit was known")
}

// Any role can send canaries in the name of this instance. A number that was not sent is no proof, and
// does not keep a later canary from being awaited.
func TestACanaryThatWasNotSentIsIgnored(t *testing.T) {
	t.Parallel()
	r, w, _ := newParts(t)
	w.startSession(r.current)
	for _, forged := range []uint64{2, math.MaxUint64} {
		r.handle(Encode(Notification{Instance: r.sender.instance, Canary: forged})[0])
	}
	require.False(t, r.Proven())
	require.Empty(t, r.heard)
	require.EqualValues(t, 2, r.Garbage())
	r.handle(Encode(Notification{Instance: r.sender.instance, Canary: 1})[0])
	require.True(t, r.Proven())
	require.EqualValues(t, 1, <-r.heard)
}

// Any role can send heartbeats in the name of many instances.
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
	require.ErrorIs(t, r.current.cause(), errDeaf)
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
