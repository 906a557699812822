package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/test/bench/rig"
)

// clockTick is the unit of the times in /proc/PID/stat.
const clockTick = 10 * time.Millisecond

// cost is what an amount of work used.
type cost struct {
	wal, disk        int64 // bytes
	sent, received   int64 // bytes
	syncs, commits   int64
	postgres, server time.Duration
}

// read returns the counters of the server and of Postgres.
func (b *bench) read(ctx context.Context) (c cost, err error) {
	// These two are exact at once.
	err = b.admin.QueryRow(ctx, `SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint,
		pg_total_relation_size('belfry.message')`).Scan(&c.wal, &c.disk)
	if err != nil {
		return c, fmt.Errorf("reading the sizes: %w", err)
	}
	c.sent, c.received = b.sent.Load(), b.received.Load()
	if c.server, err = b.CPU(); err != nil {
		return c, err
	}
	if c.postgres, err = cpuOfPostgres(b.postmaster); err != nil {
		return c, err
	}
	return c, nil
}

// settle is the time after which Postgres has the counters of an idle session.
const settle = 10500 * time.Millisecond

// readCounts adds the counters of commits and syncs. It waits until the sessions have reported them.
func (b *bench) readCounts(ctx context.Context, c *cost) error {
	timer := time.NewTimer(settle)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	err := b.admin.QueryRow(ctx, `SELECT w.wal_sync, d.xact_commit FROM pg_stat_wal w, pg_stat_database d
		WHERE d.datname = current_database()`).Scan(&c.syncs, &c.commits)
	if err != nil {
		return fmt.Errorf("reading the counters: %w", err)
	}
	return nil
}

// costOf runs work and returns what it used.
func (b *bench) costOf(ctx context.Context, work func() error) (cost, error) {
	var before, after cost
	if err := b.readCounts(ctx, &before); err != nil {
		return cost{}, err
	}
	exact, err := b.read(ctx)
	if err != nil {
		return cost{}, err
	}
	if err := work(); err != nil {
		return cost{}, err
	}
	if after, err = b.read(ctx); err != nil {
		return cost{}, err
	}
	if err := b.readCounts(ctx, &after); err != nil {
		return cost{}, err
	}
	return cost{
		wal: after.wal - exact.wal, disk: after.disk - exact.disk,
		sent: after.sent - exact.sent, received: after.received - exact.received,
		syncs: after.syncs - before.syncs, commits: after.commits - before.commits,
		postgres: after.postgres - exact.postgres, server: after.server - exact.server,
	}, nil
}

func (c cost) print(out *rig.Report, what string, l load) {
	each := func(total int64) float64 { return float64(total) / float64(l.calls()*l.batch) }
	micros := func(d time.Duration) float64 { return each(d.Microseconds()) }
	out.Printf("%-5s %6d %11d %7d %9.0f %9.0f %10.1f %10.1f %9.2f %9.2f %9.0f %9.0f\n", what, l.batch, l.connections, l.payload,
		each(c.wal), each(c.disk), micros(c.postgres), micros(c.server), float64(c.syncs)/float64(l.calls()),
		float64(c.commits)/float64(l.calls()), each(c.sent), each(c.received))
}

// postmaster returns the process id of the Postgres at conn.
func postmaster(ctx context.Context, conn *pgx.Conn) (int, error) {
	var folder string
	if err := conn.QueryRow(ctx, "SHOW data_directory").Scan(&folder); err != nil {
		return 0, fmt.Errorf("reading the folder of Postgres: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "postmaster.pid"))
	if err != nil {
		return 0, fmt.Errorf("reading the process of Postgres: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strconv.Atoi(line)
}

// cpuOfPostgres returns the processor time of Postgres. It counts the first process, the running processes and the ended
// processes.
func cpuOfPostgres(postmaster int) (time.Duration, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	ticks := int64(0)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended
		}
		_, after, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(after)
		own := strings.HasPrefix(string(text), fmt.Sprint(postmaster, " "))
		if len(fields) < 15 || (!own && fields[1] != strconv.Itoa(postmaster)) {
			continue
		}
		last := 13
		if own {
			last = 15 // with the times of the children that have ended
		}
		for _, field := range fields[11:last] {
			n, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("reading %s: %w", file, err)
			}
			ticks += n
		}
	}
	return time.Duration(ticks) * clockTick, nil
}
