package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/sql"
	"github.com/belfry-mq/belfry/test/pgproxy"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// backgroundStatements are the statements that a server runs without a waiting request. atStop are the statements that it
// runs when it stops. engine/inbox/resign is not in atStop. A stop may cancel a statement of the sequencer, and this closes
// the connection before resign runs.
var (
	backgroundStatements = []string{
		"engine/catalog/lateness", "engine/inbox/counts", "engine/limit/breakers_open", "engine/inbox/look", "postgres/listen/key", "postgres/listen/notify", "insight/live/groups", "engine/maintenance/list", "postgres/apply_settings",
		"engine/schedule/due", "engine/schedule/tick", "engine/store/heal", "engine/store/queue_depth", "engine/sweep/done", "engine/sweep/idle_find", "engine/sweep/queues", "engine/sweep/take",
	}
	atStop = []string{"insight/history/write"}
)

// When the server runs a statement for the first time, the proxy silences the connection of that statement. No statement
// may wait forever for an answer. The server must give up the connection, continue to work, and stop.
func TestEveryStatementHasATimeLimit(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	network, through := pgproxy.New(t, dsn)
	var armed atomic.Bool
	var seen sync.Map
	network.SilenceOn(func(statement string) bool {
		if !armed.Load() {
			return false
		}
		_, again := seen.LoadOrStore(statement, true)
		return !again
	})
	s := startOn(t, through, proven, func(cfg *config.Config) {
		cfg.Database.RequestTimeout = time.Second
		cfg.Live.ReadInterval = time.Second
		cfg.Sweep.RetentionInterval, cfg.Sweep.EvictionInterval, cfg.Sweep.PartitionCleanupInterval = time.Second, time.Second, time.Second
	})
	s.untilProven(t, 0)
	c, other := s.client(t), producer(t, dsn)
	c.configure("q", map[string]any{"maxSize": 100_000, "retentionSeconds": 1}).ok(http.StatusOK)
	s.openStream(t, watchEvents())
	execute(t, other, `SELECT belfry.schedule('s', 'scheduled', '1', every => '1 s')`)
	armed.Store(true)

	pushed := 0
	works := func() bool {
		pushed++
		execute(t, other, `SELECT belfry.push('q', '1', $1), pg_notify('belfry_settings', '')`, fmt.Sprint(pushed%3))
		good := true
		for _, one := range []call{pushCall(item{Queue: "q", Payload: json.RawMessage("1")}), popCall("q", "autoAck=true"), popCall("q", ""), get("/metrics/prometheus")} {
			reply, err := s.send(context.WithoutCancel(t.Context()), one)
			require.NoError(t, err)
			good = good && reply.Status < http.StatusMultipleChoices
		}
		return good
	}
	missing := func(names []string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			_, silent := seen.Load(sql.Query(name))
			return silent
		})
	}
	given := func() bool {
		return !slices.ContainsFunc(network.Silenced(), func(one pgproxy.Silenced) bool { return one.Ended.IsZero() })
	}
	for left := missing(backgroundStatements); len(left) > 0; left = missing(backgroundStatements) {
		until(t, "another background statement has been silenced; missing: "+strings.Join(left, ", "), func() bool {
			works()
			return len(missing(backgroundStatements)) < len(left)
		})
	}
	until(t, "the server works", works)
	until(t, "the server has given up each silent connection", func() bool { return works() && given() })
	require.NoError(t, s.stop(t))
	require.Empty(t, missing(atStop))
	until(t, "the stopped server has no connection", given)
	t.Logf("%d statements", len(network.Silenced()))
}
