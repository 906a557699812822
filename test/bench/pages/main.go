// Command pages measures how long each page of the dashboard, and the first answer of each search, takes on a large database: 10,000
// queues, 200,000 partitions, 15,000 groups and 50,000 dead letters. Half of the partitions are in one queue. It exits with 1 if a
// page or a search takes longer than the limit.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/test/bench/rig"
)

// limit is the time within which a page or the first answer of a search must arrive.
const limit = 300 * time.Millisecond

// settings are the values of the flags.
type settings struct {
	rounds int
	only   string
}

func main() {
	var s settings
	flag.IntVar(&s.rounds, "rounds", 7, "how often each page is read")
	flag.StringVar(&s.only, "only", "", "read only paths with this text")
	os.Exit(rig.Main(nil, func(ctx context.Context, out *rig.Report) error {
		cluster, err := rig.StartCluster(ctx, map[string]string{"shared_buffers": "512MB", "max_wal_size": "8GB"})
		if err != nil {
			return err
		}
		return errors.Join(measure(ctx, cluster, s, out), cluster.Close())
	}))
}

// measure fills a database, and reads each page rounds times in turn. So the pages also meet the counts of the totals.
func measure(ctx context.Context, cluster *rig.Cluster, s settings, out *rig.Report) (err error) {
	name, servers, err := cluster.Start(ctx, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rig.StopAll(servers)) }()
	if err := fill(ctx, cluster.URL(name)); err != nil {
		return err
	}
	// A server that has just started has counted nothing and cached nothing.
	if err := servers[0].Stop(); err != nil {
		return err
	}
	if servers[0], err = rig.StartServer(ctx, cluster.URL(name)); err != nil {
		return err
	}
	first, err := read(ctx, servers[0], "/ui/queues")
	if err != nil {
		return err
	}
	out.Note("/ui/queues, the first read of a new server", rig.Millis(first))
	paths, times, failed := chosen(s.only), map[string][]time.Duration{}, map[string]string{}
	for range s.rounds {
		for _, path := range paths {
			took, err := read(ctx, servers[0], path)
			if err != nil && failed[path] == "" {
				failed[path], _, _ = strings.Cut(err.Error(), "\n")
			}
			times[path] = append(times[path], took)
		}
	}
	slices.SortStableFunc(paths, func(a, b string) int { return cmp.Compare(median(times[b]), median(times[a])) })
	for _, path := range paths {
		out.Within(path, median(times[path]), limit)
		out.Note("    at most", rig.Millis(slices.Max(times[path])))
		if text := failed[path]; text != "" {
			out.Limit("    an answer", text, "status 200", false)
		}
	}
	return nil
}

// read returns how long the answer to a path takes.
func read(ctx context.Context, server *rig.Server, path string) (time.Duration, error) {
	began := time.Now()
	_, err := server.Call(ctx, http.MethodGet, path, nil, nil)
	return time.Since(began), err
}

// chosen returns the paths with a text.
func chosen(text string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return !strings.Contains(path, text) })
}

func median(times []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[len(sorted)/2]
}

// fill makes the data.
func fill(ctx context.Context, dsn string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return fmt.Errorf("connecting to Postgres: %w", err)
	}
	_, err = conn.PgConn().Exec(ctx, data).ReadAll()
	if err == nil {
		_, err = conn.Exec(ctx, "VACUUM ANALYZE")
	}
	if err != nil {
		err = fmt.Errorf("filling the database: %w", err)
	}
	return errors.Join(err, conn.Close(ctx))
}
