package store_test

import (
	"net"
	"strconv"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/pgproxy"
)

// A claim whose commit failed with a transient error is retried. It delivers the messages of the
// last try.
func TestARetriedClaimDeliversOnce(t *testing.T) {
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

// A claim may need several tries, and a try may fail to connect. The claim releases every lease
// that an earlier try took and the last try did not deliver.
func TestARetriedClaimReleasesTheLeasesOfEarlierTries(t *testing.T) {
	t.Parallel()
	direct := newBench(t)
	network, through := pgproxy.New(t, direct.pool.Config().ConnString())
	pool := enginetest.Pool(t, through, func(c *postgres.Config) { c.PoolSize = 1 })
	s := newStore(t, pool, prometheus.NewRegistry(), nil)
	direct.register("g")
	direct.push("p", "1")
	direct.push("other", "2")
	req := request("g", 1)
	_, ok, err := s.Resolve(t.Context(), req)
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
