//go:build installed

package integration_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
	benchload "github.com/belfry-mq/belfry/pkg/bench/load"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// ledger counts the statements of a database.
type ledger struct {
	t        *testing.T
	admin    *pgx.Conn
	database string
}

func newLedger(t *testing.T) (l *ledger, dsn string) {
	t.Helper()
	cluster := pgtest.OwnCluster(t, "shared_preload_libraries")
	execute(t, producer(t, cluster.URL("postgres")), `ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'`)
	require.NoError(t, cluster.Stop(t.Context()))
	require.NoError(t, cluster.Restart(t.Context()))
	require.NoError(t, cluster.CreateDatabase(t.Context(), "watched"))
	l = &ledger{t: t, admin: producer(t, cluster.URL("postgres")), database: "watched"}
	execute(t, l.admin, `CREATE EXTENSION pg_stat_statements`)
	return l, cluster.URL(l.database)
}

func (l *ledger) reset() {
	execute(l.t, l.admin, `SELECT pg_stat_statements_reset(0, d.oid, 0) FROM pg_database d WHERE d.datname = 'watched'`)
}

func (l *ledger) statements() (n int, list string) {
	l.t.Helper()
	all, err := benchload.Statements(l.t.Context(), l.admin, l.database)
	require.NoError(l.t, err)
	benchload.SortStatements(all)
	for _, s := range all {
		n += s.Calls
		list += fmt.Sprintf("\n%6d x %s", s.Calls, benchload.ShortStatement(s.Text))
	}
	return n, list
}

// untilQuiet waits until no statement is made for a second: pages that were just opened are read, and the first one
// begins to watch the events.
func (l *ledger) untilQuiet() {
	l.t.Helper()
	last, since := -1, time.Now()
	until(l.t, "no statement is made", func() bool {
		if n, _ := l.statements(); n != last {
			last, since = n, time.Now()
		}
		return time.Since(since) > time.Second
	})
}

// during returns the statements that are made in a time.
func (l *ledger) during(d time.Duration) (n int, list string) {
	l.t.Helper()
	l.reset()
	<-time.After(d)
	return l.statements()
}

// withoutTimers makes a server that makes no statement by the clock, so each one is that of a request.
func withoutTimers(cfg *config.Config) {
	proven(cfg)
	cfg.Listen.CanaryInterval, cfg.Listen.PeerTimeout = time.Hour, 3*time.Hour
	cfg.Sweep.RetentionInterval, cfg.Sweep.EvictionInterval = time.Hour, time.Hour
	cfg.History.Enabled, cfg.Live.LagThreshold = false, time.Hour
}

// dashboardPages are one page of each kind.
func dashboardPages() []string {
	return []string{"", "queues", "queue?q=q", "group?q=q&g=g", "messages", "dead", "dispatcher", "history", "system", "producers"}
}

// While nothing happens, open dashboards cost the database no statement, also after the time in which an answer is kept.
func TestOpenDashboardsCostAnIdleDatabaseNothing(t *testing.T) {
	t.Parallel()
	l, dsn := newLedger(t)
	s := startOn(t, dsn, withoutTimers)
	s.untilProven(t, 0)
	c := s.client(t)
	c.pushIDs("q", "p", "a", "b")
	require.Equal(t, []string{"a"}, c.popIDs("q", "consumerGroup=g&subscriptionMode=all"))
	first := s.openTab(t, "") // it is read again if the delivery is counted after its load
	l.untilQuiet()
	first.close()
	var tabs []*tab
	for _, page := range dashboardPages() {
		tabs = append(tabs, s.openTab(t, page))
		l.untilQuiet()
		n, list := l.during(2 * time.Second)
		require.Zero(t, n, "%s: %s", page, list)
	}
	reads := make([]int64, len(tabs)) // an event before may come late
	for i, tab := range tabs {
		reads[i] = tab.reads.Load()
	}
	n, list := l.during(32 * time.Second)
	require.Zero(t, n, list)
	for i, tab := range tabs {
		require.Equal(t, reads[i], tab.reads.Load(), "the page %q was read again", dashboardPages()[i])
	}
}

// While messages are pushed and popped all the time, ten dashboards cost what one costs, and each is read at most every
// 400 ms.
func TestTenDashboardsCostWhatOneCosts(t *testing.T) {
	t.Parallel()
	const phase = 8 * time.Second
	l, dsn := newLedger(t)
	s := startOn(t, dsn, withoutTimers)
	s.untilProven(t, 0)
	c := s.client(t)
	c.pushIDs("q", "p", "first")
	busy, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() {
		for i := 0; busy.Err() == nil; i++ {
			c.pushIDs("q", "p", fmt.Sprint(i))
			c.popIDs("q", "consumerGroup=g&autoAck=true")
			<-time.After(10 * time.Millisecond)
		}
	})
	defer work.Wait()
	defer stop()
	measure := func() (calls map[string]int) {
		l.reset()
		<-time.After(phase)
		found, err := benchload.Statements(t.Context(), l.admin, l.database)
		require.NoError(t, err)
		calls = map[string]int{}
		for _, one := range found {
			calls[one.Text] += one.Calls
		}
		return calls
	}
	alone := measure()
	reads := func() (n int) {
		for text, calls := range measure() {
			if alone[text] == 0 {
				n += calls
			}
		}
		return n
	}
	tabs := []*tab{s.openTab(t, "")}
	one := reads()
	alike := tabs[0].reads.Load()
	for range 9 {
		tabs = append(tabs, s.openTab(t, ""))
	}
	for _, tab := range tabs {
		tab.reads.Store(0)
	}
	ten, refreshed := reads(), int64(0)
	for _, tab := range tabs {
		refreshed += tab.reads.Load()
	}
	t.Logf("%d and %d reads with 1 and 10 dashboards; ten were refreshed %d times", one, ten, refreshed)
	require.Positive(t, one)
	require.Less(t, ten, 2*one+10)
	require.LessOrEqual(t, refreshed/10, int64(phase/(400*time.Millisecond))+3)
	require.Greater(t, refreshed, 4*alike, "all of them are refreshed")
}
