package world

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/belfry-mq/belfry/pkg/postgres/devdb"
)

// longestDown is the maximum time between the end of a process and its restart.
const longestDown = 2 * time.Second

func processFaults() []Fault {
	return []Fault{
		{Name: "kill-server", run: func(ctx context.Context, w *World, choose *rand.Rand) (string, error) {
			return w.restartServer(ctx, choose, (*server).kill)
		}},
		{Name: "stop-server", run: func(ctx context.Context, w *World, choose *rand.Rand) (string, error) {
			return w.restartServer(ctx, choose, (*server).stop)
		}},
		{Name: "kill-postgres", run: func(ctx context.Context, w *World, choose *rand.Rand) (string, error) {
			return w.restartPostgres(ctx, choose, (*devdb.Cluster).Kill)
		}},
		{Name: "stop-postgres", run: func(ctx context.Context, w *World, choose *rand.Rand) (string, error) {
			return w.restartPostgres(ctx, choose, func(primary *devdb.Cluster) error {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), clusterPatience)
				defer cancel()
				return primary.Stop(ctx)
			})
		}},
	}
}

// restartServer ends a server and starts it again, even if ctx has ended. Other servers may be down at the same time.
func (w *World) restartServer(ctx context.Context, choose *rand.Rand, end func(*server) error) (string, error) {
	s, down := w.anyServer(choose), between(choose, 0, longestDown).Round(time.Millisecond)
	s.busy.Lock()
	defer s.busy.Unlock()
	if err := end(s); err != nil {
		return s.name, err
	}
	Pause(ctx, down)
	if err := s.start(context.WithoutCancel(ctx)); err != nil {
		return s.name, err
	}
	return fmt.Sprintf("%s, down for %s", s.name, down), nil
}

// restartPostgres ends Postgres and starts it again, even if ctx has ended.
func (w *World) restartPostgres(ctx context.Context, choose *rand.Rand, end func(*devdb.Cluster) error) (string, error) {
	down := between(choose, 0, longestDown).Round(time.Millisecond)
	w.postgres.Lock()
	defer w.postgres.Unlock()
	if err := end(w.primary()); err != nil {
		return "", fmt.Errorf("ending Postgres: %w", err)
	}
	Pause(ctx, down)
	if err := w.primary().Restart(context.WithoutCancel(ctx)); err != nil {
		return "", fmt.Errorf("starting Postgres again: %w", err)
	}
	return fmt.Sprintf("down for %s", down), nil
}
