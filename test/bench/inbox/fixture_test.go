package inbox

import (
	"context"
	"flag"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
	"github.com/belfry-mq/belfry/test/bench/rig"
	"github.com/belfry-mq/belfry/test/pgtest"
)

var (
	samples  = flag.Int("samples", 20, "commits for which the time to a waiting consumer is measured")
	rows     = flag.Int("rows", 5000, "rows of the COPY")
	duration = flag.Duration("load", 300*time.Millisecond, "duration of each load")
	rounds   = flag.Int("rounds", 2, "rounds; each load runs once in a round")
	open     = flag.Duration("open", time.Second, "how long a transaction is left open")
	limits   = flag.Bool("limits", false, "fail if a target is missed; use only on a machine without other load")
)

func TestMain(m *testing.M) {
	if code, ok := rig.RunChild(map[string]rig.Child{insertChild: runInserter}); ok {
		os.Exit(code)
	}
	pgtest.Main(m)
}

// patience limits the time of one test.
const patience = 10 * time.Minute

// fixture is a server on a new database.
type fixture struct {
	*rig.Test
	// sent is the number of sent messages. It is also the transaction id of the last one.
	sent int
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return &fixture{Test: rig.NewTest(t, patience)}
}

// waitSequenced blocks until the inbox is empty.
func (f *fixture) waitSequenced() {
	f.T.Helper()
	for f.Number("SELECT count(*) FROM (SELECT 1 FROM belfry.inbox LIMIT 1) AS i") > 0 {
		require.NoError(f.T, load.Pause(f.Ctx, 5*time.Millisecond), "the inbox did not become empty")
	}
}

// arrival is a message that a consumer received.
type arrival struct {
	id string
	at time.Time
}

// consume pops messages of a queue, one by one, until ctx ends.
func (f *fixture) consume(ctx context.Context, queue string, arrivals chan<- arrival) error {
	for {
		var body struct {
			Messages []struct {
				TransactionID string `json:"transactionId"`
			} `json:"messages"`
		}
		resp, err := f.Server.Call(ctx, http.MethodGet, "/api/v1/pop/queue/"+queue+"?wait=true&timeout=30000&autoAck=true", nil, &body)
		if err != nil {
			return err
		}
		for _, m := range body.Messages {
			arrivals <- arrival{m.TransactionID, resp.At}
		}
	}
}

// quantile returns a quantile, rounded to 10 µs.
func quantile(times *load.Times, q float64) time.Duration {
	return times.Quantile(q).Round(10 * time.Microsecond)
}

// target logs a missed target. With -limits it fails the test.
func (f *fixture) target(met bool, what string) {
	f.T.Helper()
	switch {
	case met:
	case *limits:
		f.T.Errorf("missed: %s", what)
	default:
		f.T.Logf("missed: %s", what)
	}
}

// ratio returns the p99 of some divided by the p99 of others.
func ratio(some, others *load.Times) float64 {
	return float64(some.Quantile(0.99)) / float64(others.Quantile(0.99))
}
