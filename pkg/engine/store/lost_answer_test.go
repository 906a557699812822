package store_test

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/engine/store"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/pgproxy"
)

// startRun starts Run in the background and returns once its first heal has ended.
func startRun(t *testing.T, s *store.Store) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		end()
		require.NoError(t, <-done)
	})
	enginetest.Await(t, "the heal of the start", func() bool { passes, _ := s.Heals(); return passes > 0 })
}

// An ack with a lost answer is not sent again, so the store does not know which cursors became
// ready. It publishes a resync after the next heal.
func TestALostConnectionCausesAResync(t *testing.T) {
	direct, network, s := storeBehindProxy(t)
	direct.push("p", "1")
	d := direct.pop(request("g", 1))
	heard := &receiver{}
	s.Observe(heard)
	startRun(t, s)
	require.Zero(t, heard.resyncs.Load())
	network.CutRowOf.Store(pgproxy.AckColumns)
	_, err := s.Ack(t.Context(), acks(d, queue.AckRetry, d.Messages...))
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(err))
	enginetest.Await(t, "the resync", func() bool { return heard.resyncs.Load() > 0 })
	passes, healed := s.Heals()
	require.Greater(t, passes, int64(1))
	require.Zero(t, healed, "the cursor was already ready")
	require.Len(t, direct.pop(request("g", 1)).Messages, 1)
}

// A push claims messages for a waiting request, and the answer is lost. The store releases that
// lease long before it would expire.
func TestAHandoffWithALostAnswerIsReleased(t *testing.T) {
	direct, network, s := storeBehindProxy(t)
	direct.register("g")
	req := request("g", 1)
	target, _, _, err := direct.Resolve(t.Context(), req)
	require.NoError(t, err)
	s.Observe(&receiver{offered: req, target: target})
	network.CutCommit.Store(true)
	_, err = s.Push(t.Context(), []queue.PushItem{item("p", "1")})
	require.NoError(t, err)
	require.Empty(t, direct.pop(req).Messages, "the lost call has leased the partition")
	startRun(t, s)
	requireReleased(t, direct, req)
}

// A push claims for a waiting request with autoAck, and the answer is lost. The request must fail,
// because its messages may be consumed.
func TestAnAutoAckHandoffWithALostAnswerFailsItsRequest(t *testing.T) {
	direct, network, s := storeBehindProxy(t)
	direct.register("g")
	req := request("g", 1, withAutoAck(true))
	target, _, _, err := direct.Resolve(t.Context(), req)
	require.NoError(t, err)
	r := &receiver{offered: req, target: target}
	s.Observe(r)
	network.CutCommit.Store(true)
	_, err = s.Push(t.Context(), []queue.PushItem{item("p", "1")})
	require.NoError(t, err)
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(r.taken[0].Lost))
}

// The answer of a round of claims is lost. The store releases the leases of the round.
func TestAClaimWithALostAnswerIsReleased(t *testing.T) {
	direct, network, s := storeBehindProxy(t)
	direct.push("p", "1")
	req := request("g", 1)
	target, _, _, err := s.Resolve(t.Context(), req)
	require.NoError(t, err)
	network.CutRow.Store(true)
	_, err = s.Claim(t.Context(), []queue.Assignment{{Request: req, Target: target}})
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(err))
	require.False(t, network.CutRow.Load())
	require.Empty(t, direct.pop(req).Messages, "the lost call has leased the partition")
	startRun(t, s)
	requireReleased(t, direct, req)
}

// requireReleased waits until a leased message is released and requires that its lost delivery counted no
// attempt.
func requireReleased(t *testing.T, b *bench, req *queue.PopRequest) {
	t.Helper()
	var got queue.Delivery
	enginetest.Await(t, "the message", func() bool {
		got = b.pop(req)
		return len(got.Messages) > 0
	})
	require.Equal(t, 1, got.Messages[0].Attempt, "the lost delivery counts no attempt")
}

// A retried claim releases the lease of its first try and may lease another partition. The store
// announces the partition of the first try.
func TestTheReleasedLeaseOfAnEarlierTryIsAnnounced(t *testing.T) {
	direct, network, s := storeBehindProxy(t)
	direct.register("g")
	direct.push("p", "1")
	direct.push("other", "2")
	req := request("g", 1)
	_, _, ok, err := s.Resolve(t.Context(), req)
	require.NoError(t, err)
	require.True(t, ok)
	heard := &receiver{}
	s.Observe(heard)
	network.CutRow.Store(true)
	d, err := s.Pop(t.Context(), req)
	require.NoError(t, err)
	require.False(t, network.CutRow.Load(), "the answer was lost")
	require.Equal(t, []string{"2"}, transactionIDs(d), "partition other had been ready for longer")
	var partition int64
	direct.scan(`SELECT id FROM belfry.partition WHERE name = 'p'`, nil, &partition)
	require.Len(t, heard.ready, 1)
	require.Equal(t, partition, heard.ready[0].Partition)
	require.Equal(t, []string{"1"}, transactionIDs(direct.pop(req)))
}

// A claim whose commit failed with a transient error is retried. It delivers the messages of the
// last try.
func TestARetriedClaimDeliversOnce(t *testing.T) {
	t.Parallel()
	for _, autoAck := range []bool{false, true} {
		t.Run(fmt.Sprint("autoAck ", autoAck), func(t *testing.T) {
			b := newBench(t, "g")
			b.push("p", "1", "2")
			b.exec(`CREATE SEQUENCE public.tries;
				CREATE FUNCTION public.fail_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
					IF nextval('public.tries') = 1 THEN RAISE EXCEPTION 'once' USING ERRCODE = 'serialization_failure'; END IF;
					RETURN NULL;
				END $$;
				CREATE CONSTRAINT TRIGGER fail_once AFTER UPDATE ON belfry.cursor DEFERRABLE INITIALLY DEFERRED
					FOR EACH ROW EXECUTE FUNCTION public.fail_once()`)
			req := request("g", 9, withAutoAck(autoAck))
			require.Equal(t, []string{"1", "2"}, transactionIDs(b.pop(req)))
			require.Equal(t, 2, b.count(`SELECT last_value FROM public.tries`))
		})
	}
}

// A claim may need several tries, and a try may fail to connect. The claim releases every lease
// that an earlier try took and the last try did not deliver.
func TestARetriedClaimReleasesTheLeasesOfEarlierTries(t *testing.T) {
	direct := newBench(t)
	network, through := pgproxy.New(t, direct.pool.Config().ConnString())
	pool := enginetest.Pool(t, through, func(c *postgres.Config) { c.PoolSize = 1 })
	s := newStore(t, pool, prometheus.NewRegistry(), nil)
	direct.register("g")
	direct.push("p", "1")
	direct.push("other", "2")
	req := request("g", 1)
	_, _, ok, err := s.Resolve(t.Context(), req)
	require.NoError(t, err)
	require.True(t, ok)
	// The first new connection ends at once, with and without TLS. Later connections work.
	good := direct.pool.Config().ConnConfig
	var lc net.ListenConfig
	bad, err := lc.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	refused := make(chan error, 1)
	go func() {
		for range 2 {
			conn, err := bad.Accept()
			if err != nil {
				refused <- err
				return
			}
			_ = conn.Close()
		}
		network.Retarget(net.JoinHostPort(good.Host, strconv.Itoa(int(good.Port))))
		refused <- bad.Close()
	}()
	network.Retarget(bad.Addr().String())
	network.CutRow.Store(true)
	d, err := s.Pop(t.Context(), req)
	require.NoError(t, err)
	require.NoError(t, <-refused)
	require.False(t, network.CutRow.Load(), "the answer was lost")
	require.Len(t, d.Messages, 1)
	require.Len(t, direct.pop(req).Messages, 1, "the lease of the first try was released")
}

// One claim of a round returns messages that the store cannot decrypt. The other claims return
// their deliveries, and the store releases the lease of the undelivered messages.
func TestASealedQueueDoesNotFailTheOtherClaimsOfARound(t *testing.T) {
	b := newBench(t, "g")
	keyless := b.sealing()
	b.push("p", "sealed")
	open := queue.PushItem{Queue: "other", Partition: "p", TransactionID: "open", Payload: []byte(`{}`)}
	_, err := b.Push(t.Context(), []queue.PushItem{open})
	require.NoError(t, err)
	var round []queue.Assignment
	for _, name := range []string{"other", "q", "other"} {
		req := request("g", 1)
		req.Queue = name
		target, _, ok, err := keyless.Resolve(t.Context(), req)
		require.NoError(t, err)
		require.True(t, ok)
		round = append(round, queue.Assignment{Request: req, Target: target})
	}
	deliveries, err := keyless.Claim(t.Context(), round)
	require.NoError(t, err)
	require.Equal(t, []string{"open"}, transactionIDs(deliveries[0]))
	require.Empty(t, deliveries[1].Messages)
	require.True(t, deliveries[1].Contested, "the request pops by itself")
	require.ErrorIs(t, deliveries[1].Undeliverable, seal.ErrNoKey)
	require.Empty(t, deliveries[2].Messages)
	b.retryNow()
	require.Equal(t, []string{"sealed"}, transactionIDs(b.pop(request("g", 1))), "the lease was released")
}

// A lease of a deleted queue is not live, so a transaction that requires it is refused.
func TestATransactionRefusesALeaseOfADeletedQueue(t *testing.T) {
	b := newBench(t, "g")
	b.push("p", "1")
	d := b.pop(request("g", 1))
	elsewhere := func(id string) queue.PushItem {
		return queue.PushItem{Queue: "other", Partition: "p", TransactionID: id, Payload: []byte(`{}`)}
	}
	b.applied(transaction(elsewhere("a"), d.LeaseID))
	b.exec(`UPDATE belfry.queue SET deleted_at = now() WHERE name = 'q'`)
	refused := b.transact(transaction(elsewhere("b"), d.LeaseID))
	require.False(t, refused.Applied)
	require.Contains(t, refused.Error, "is not live")
}
