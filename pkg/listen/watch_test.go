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

// parts is a listener with a session and without a database, for the steps that
// its two loops make.
func parts(t *testing.T) (r *reader, w *watcher, doubts *[]string) {
	t.Helper()
	const url = "postgres://nobody@localhost/none"
	cfg, doubts := DefaultConfig(), new([]string)
	sender, err := NewSender(url, queue.NewID(), cfg, zap.NewNop())
	require.NoError(t, err)
	l, err := NewListener(url, sender, cfg, Callbacks{
		OnMessage: func(Message) {}, OnResync: func(reason string) { *doubts = append(*doubts, reason) },
	}, zap.NewNop())
	require.NoError(t, err)
	life, cut := context.WithCancelCause(t.Context())
	t.Cleanup(func() { cut(nil) })
	r = &l.reader
	r.current = &session{line: &line{life: life, cut: cut}, guard: stopped()}
	w = &watcher{Listener: l, silence: stopped(), proof: stopped(), peerDue: stopped()}
	t.Cleanup(func() {
		w.silence.Stop()
		w.proof.Stop()
	})
	return r, w, doubts
}

func TestDoubtIsCalledBeforeTheProbe(t *testing.T) {
	t.Parallel()
	r, w, doubts := parts(t)
	go r.inForce(t.Context())
	s := <-r.listening
	require.Equal(t, []string{"the listener connected"}, *doubts)
	require.Zero(t, w.number)
	w.begin(s)
	require.EqualValues(t, 1, w.probe)
	require.EqualValues(t, 1, r.sender.pending.canary)
}

// Peers whom we could not hear get a full timeout when we can again.
func TestPeersGetGraceWhenListenIsInForce(t *testing.T) {
	t.Parallel()
	r, _, _ := parts(t)
	id := queue.NewID()
	r.peers.heard(id, true, time.Now().Add(-time.Hour))
	go r.inForce(t.Context())
	<-r.listening
	silent, _ := r.peers.expire(time.Now().Add(r.cfg.PeerTimeout - time.Second))
	require.Empty(t, silent)
	silent, _ = r.peers.expire(time.Now().Add(r.cfg.PeerTimeout))
	require.Equal(t, []queue.ID{id}, silent)
}

func TestOnlyACanaryAfterListenIsAwaited(t *testing.T) {
	t.Parallel()
	r, w, _ := parts(t)
	w.sent(1)
	require.Zero(t, w.awaited, "nobody listens")
	w.number = 4
	w.begin(r.current)
	w.sent(4)
	require.Zero(t, w.awaited, "it may have been committed before LISTEN was in force")
	w.sent(5)
	require.EqualValues(t, 5, w.awaited)
	w.sent(6)
	require.EqualValues(t, 5, w.awaited, "a later one gives the first no more time")
	w.hear(4)
	require.EqualValues(t, 5, w.awaited)
	w.hear(6)
	require.Zero(t, w.awaited)
	w.sent(6)
	require.Zero(t, w.awaited, "it was heard before we knew of its commit")
}

func TestAnAwaitedCanaryDecidesNotTheProofTimer(t *testing.T) {
	t.Parallel()
	r, w, doubts := parts(t)
	w.begin(r.current)
	r.own(1)
	w.hear(1)
	w.lastProof = time.Now().Add(-time.Hour)

	w.sent(2)
	w.unproven()
	require.True(t, w.Proven())
	w.hear(2)

	w.lastProof = time.Now()
	w.unproven()
	require.True(t, w.Proven(), "a proof came just now")

	w.lastProof = time.Now().Add(-time.Hour)
	w.unproven()
	require.False(t, w.Proven())
	require.Equal(t, []string{"the listener lost its proof"}, *doubts)
	w.unproven()
	require.Len(t, *doubts, 1)
}

func TestACanaryOnACutLineIsNoProof(t *testing.T) {
	t.Parallel()
	r, w, _ := parts(t)
	w.begin(r.current)
	w.silent()
	require.ErrorIs(t, r.current.cause(), errDeaf)
	r.own(1)
	require.False(t, r.Proven())
}

func TestALineThatIsOverDialsNoMore(t *testing.T) {
	t.Parallel()
	life, cut := context.WithCancelCause(t.Context())
	reason := errors.New("it is over")
	cut(reason)
	_, err := dial(t.Context(), life, "tcp4", "127.0.0.1:1")
	require.ErrorIs(t, err, reason)
}
