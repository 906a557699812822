package listen

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

func TestASilentPeerExpiresOnce(t *testing.T) {
	t.Parallel()
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
	require.Empty(t, silent, "each expires once, and a message postpones it")
	require.Equal(t, after(31), next)

	p.extendAll(after(31))
	silent, _ = p.expire(after(45))
	require.Empty(t, silent, "it could not be heard")
	require.Equal(t, []queue.ID{b}, p.ids())

	p.remove(b, after(46))
	silent, next = p.expire(after(100))
	require.Empty(t, silent, "it sent a goodbye")
	require.Zero(t, next)
}

func TestOnlyAHeartbeatAddsAPeer(t *testing.T) {
	t.Parallel()
	p := newPeers(time.Second)
	p.heard(queue.NewID(), false, time.Now())
	require.Zero(t, p.count())
}

func TestPeersAreBounded(t *testing.T) {
	t.Parallel()
	p := newPeers(time.Second)
	for range maxPeers + 10 {
		p.heard(queue.NewID(), true, time.Now())
	}
	require.Equal(t, maxPeers, p.count())
}
