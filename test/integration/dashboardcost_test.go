//go:build installed

package integration_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
	benchload "github.com/belfry-mq/belfry/pkg/cli/bench/load"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// ledger counts the statements that run in one database.
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

// untilQuiet waits until no statement has run for a second. Before that, pages that were just opened are read again, and
// the first page starts to watch the events.
func (l *ledger) untilQuiet() {
	l.t.Helper()
	last, since := -1, time.Now()
	until(l.t, "no statement runs for a second", func() bool {
		if n, _ := l.statements(); n != last {
			last, since = n, time.Now()
		}
		return time.Since(since) > time.Second
	})
}

// withoutTimers configures a server that runs no periodic statements. So each statement belongs to a request.
func withoutTimers(cfg *config.Config) {
	proven(cfg)
	cfg.Listen.CanaryInterval, cfg.Listen.PeerTimeout = time.Hour, 3*time.Hour
	cfg.Sweep.RetentionInterval, cfg.Sweep.EvictionInterval = time.Hour, time.Hour
	cfg.History.Enabled, cfg.Problems.LateAfter = false, time.Hour
}

// dashboardPages are one page of each kind.
func dashboardPages() []string {
	return []string{"", "queues", "queue?q=q", "group?q=q&g=g", "messages", "dead", "dispatcher", "history", "system", "producers", "schedules", "schedule?name=s"}
}

// While nothing happens, open dashboards must run no statement. The test waits longer than the server caches an answer.
func TestOpenDashboardsCostAnIdleDatabaseNothing(t *testing.T) {
	t.Parallel()
	l, dsn := newLedger(t)
	s := startOn(t, dsn, withoutTimers)
	s.untilProven(t, 0)
	c := s.client(t)
	c.pushIDs("q", "p", "a", "b")
	require.Equal(t, []string{"a"}, c.popIDs("q", "consumerGroup=g&subscriptionMode=all"))
	execute(t, producer(t, dsn), `SELECT belfry.schedule('s', 'q', '{}', at => '2090-01-01')`)
	first := s.openTab(t, "") // the server counts the delivery late, so this page may be read again
	l.untilQuiet()
	first.close()
	var tabs []*tab
	for _, page := range dashboardPages() {
		tabs = append(tabs, s.openTab(t, page))
	}
	l.untilQuiet()
	reads := make([]int64, len(tabs)) // an earlier event may arrive late
	for i, tab := range tabs {
		reads[i] = tab.reads.Load()
	}
	l.reset()
	<-time.After(32 * time.Second)
	n, list := l.statements()
	require.Zero(t, n, list)
	for i, tab := range tabs {
		require.Equal(t, reads[i], tab.reads.Load(), "the page %q must not be read again", dashboardPages()[i])
	}
}

// A schedule that SQL makes appears on an open page with its next instant. When SQL deletes it, it disappears.
func TestASchedulesChangeArrivesAtAnOpenPage(t *testing.T) {
	t.Parallel()
	l, dsn := newLedger(t)
	s := startOn(t, dsn, withoutTimers)
	s.untilProven(t, 0)
	open, sql := s.openTab(t, "schedules"), producer(t, dsn)
	shows := func(what, part string) {
		t.Helper()
		until(t, what, func() bool {
			shown := open.shown.Load()
			return shown != nil && strings.Contains(*shown, part)
		})
	}
	l.untilQuiet() // what comes later is caused by the schedule
	execute(t, sql, `SELECT belfry.schedule('yearly', 'q', '{}', at => '2090-01-02 03:04:05Z')`)
	shows("the page shows the next instant", "2090-01-02 03:04:05</time>")
	l.untilQuiet()
	execute(t, sql, `SELECT belfry.unschedule('yearly')`)
	shows("the page shows that the schedule is deleted", "There is no schedule yet")
}

// While messages are pushed and popped all the time, ten dashboards must run about as many statements as one dashboard.
// Each dashboard is read at most once in 400 ms.
func TestTenDashboardsCostAsMuchAsOne(t *testing.T) {
	t.Parallel()
	const refreshes, least = 8, 400 * time.Millisecond
	l, dsn := newLedger(t)
	s := startOn(t, dsn, withoutTimers)
	s.untilProven(t, 0)
	c := s.client(t)
	c.pushIDs("q", "p", "first")
	busy, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	var rounds atomic.Int64
	work.Go(func() {
		for i := 0; busy.Err() == nil; i++ {
			c.pushIDs("q", "p", fmt.Sprint(i))
			c.popIDs("q", "consumerGroup=g&autoAck=true")
			rounds.Add(1)
			<-time.After(10 * time.Millisecond)
		}
	})
	defer work.Wait()
	defer stop()
	measure := func(what string, done func() bool) (calls map[string]int) {
		l.reset()
		until(t, what, done)
		found, err := benchload.Statements(t.Context(), l.admin, l.database)
		require.NoError(t, err)
		calls = map[string]int{}
		for _, one := range found {
			calls[one.Text] += one.Calls
		}
		return calls
	}
	alone := measure("messages are pushed and popped", func() bool { return rounds.Load() > 100 })
	// reads returns the number of statements of the dashboards until each of them was refreshed 8 times.
	reads := func(tabs []*tab) (n int) {
		for _, tab := range tabs {
			tab.reads.Store(0)
		}
		began := time.Now()
		calls := measure("each dashboard is refreshed", func() bool {
			return !slices.ContainsFunc(tabs, func(tab *tab) bool { return tab.reads.Load() < refreshes })
		})
		for _, tab := range tabs {
			require.LessOrEqual(t, tab.reads.Load(), int64(time.Since(began)/least)+3)
		}
		for text, count := range calls {
			if alone[text] == 0 {
				n += count
			}
		}
		return n
	}
	tabs := []*tab{s.openTab(t, "")}
	one := reads(tabs)
	for range 9 {
		tabs = append(tabs, s.openTab(t, ""))
	}
	ten := reads(tabs)
	t.Logf("%d and %d statements for %d refreshes of 1 and 10 dashboards", one, ten, refreshes)
	require.Positive(t, one)
	require.Less(t, ten, 2*one+10)
}

// Twenty open tabs of the pages that show totals share each count of all queues: after a change they cost as many counts as one tab.
func TestTwentyTabsShareTheCountsOfAllQueues(t *testing.T) {
	t.Parallel()
	l, dsn := newLedger(t)
	s := startOn(t, dsn, withoutTimers)
	s.untilProven(t, 0)
	c := s.client(t)
	c.pushIDs("q", "p", "first")
	c.popIDs("q", "consumerGroup=g&subscriptionMode=all")
	counts := func(id string) (n int) {
		l.untilQuiet()
		l.reset()
		c.pushIDs("q", "p", id)
		l.untilQuiet()
		found, err := benchload.Statements(t.Context(), l.admin, l.database)
		require.NoError(t, err)
		for _, one := range found {
			if strings.Contains(one.Text, "place AS MATERIALIZED") {
				n += one.Calls
			}
		}
		return n
	}
	s.openTab(t, "groups")
	one := counts("a")
	for i := range 19 {
		s.openTab(t, []string{"", "queues", "groups", "queue?q=q", "group?q=q&g=g"}[i%5])
	}
	twenty := counts("b")
	t.Logf("%d and %d counts for a change with 1 and 20 tabs", one, twenty)
	require.Positive(t, one)
	require.LessOrEqual(t, twenty, one+5) // without sharing there are 20; on a busy machine a tab may ask after a count has ended
}
