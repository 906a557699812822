package store_test

import (
	"net"
	"strconv"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/test/pgproxy"
)

// A claim whose commit failed for a passing reason is made again, and delivers what
// the last try brought.
func TestAClaimThatIsMadeAgainDeliversOnce(t *testing.T) {
	t.Parallel()
	for _, autoAck := range []bool{false, true} {
		b := newBench(t)
		b.register("g")
		b.push("p", "1", "2")
		b.exec(`CREATE SEQUENCE public.tries;
			CREATE FUNCTION public.fail_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
				IF nextval('public.tries') = 1 THEN RAISE EXCEPTION 'once' USING ERRCODE = 'serialization_failure'; END IF;
				RETURN NULL;
			END $$;
			CREATE CONSTRAINT TRIGGER fail_once AFTER UPDATE ON belfry.cursor DEFERRABLE INITIALLY DEFERRED
				FOR EACH ROW EXECUTE FUNCTION public.fail_once()`)
		req := request("g", 9)
		req.AutoAck = autoAck
		require.Equal(t, []string{"1", "2"}, transactionIDs(b.pop(req)))
		var tries int
		b.scan(`SELECT last_value FROM public.tries`, nil, &tries)
		require.Equal(t, 2, tries)
	}
}

// A claim may need several tries, one of which gets nowhere: what any of them has
// leased, and the last did not deliver, is free.
func TestAClaimOfSeveralTriesHoldsWhatItDelivers(t *testing.T) {
	t.Parallel()
	direct := newBench(t)
	network, through := pgproxy.New(t, direct.pool.Config().ConnString())
	cfg := postgres.DefaultConfig()
	cfg.URL, cfg.PoolSize = through, 1
	pool, err := postgres.Open(t.Context(), cfg, "store-test", 0)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	s := newStore(t, pool, prometheus.NewRegistry(), nil)
	direct.register("g")
	direct.push("p", "1")
	direct.push("other", "2")
	req := request("g", 1)
	_, ok, err := s.Resolve(t.Context(), req)
	require.NoError(t, err)
	require.True(t, ok)
	// The first new connection ends at once, with and without TLS; those after it are good.
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
	require.Len(t, direct.pop(req).Messages, 1, "what the first try had leased is free")
}
