package listen

import (
	"context"
	"errors"
	"testing"
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
		OnMessage: func(Notification) {}, OnResync: func(reason string) { *resyncs = append(*resyncs, reason) }, OnState: func(State) {},
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
	require.Zero(t, w.lastCanary)
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
	w.lastCanary = 4
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
