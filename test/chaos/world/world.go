package world

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-mq/belfry/pkg/postgres/devdb"
	"github.com/belfry-mq/belfry/test/chaos/clock"
	"github.com/belfry-mq/belfry/test/pgtest"
)

const (
	databaseName = "chaos"
	// maxConnections is the max_connections of Postgres. It is enough for the servers, but small enough for
	// exhaustConnections.
	maxConnections = 100
	// adminConnections is the number of connections of this package. They bypass the unreliable network.
	adminConnections = 4
	// sqlConnections is the maximum number of connections of the clients in SQL.
	sqlConnections  = 12
	clusterPatience = time.Minute
)

// World has the servers, their database and the network between them. Several faults may run at the same time.
type World struct {
	dir     string
	servers []*server
	admin   *pgxpool.Pool
	clients *pgxpool.Pool
	// nodes are the Postgres servers: two if a fault needs a standby, otherwise one.
	nodes []*devdb.Cluster
	// pooler is between the servers and the only node. It may be nil.
	pooler *pgtest.Pooler
	// volume has the WAL of the nodes. It is nil if no fault fills the disk.
	volume *volume
	// databaseClock steps the clock of Postgres. It is nil if no fault does this.
	databaseClock *clock.Database

	// PopUnread pops from the queues of the workload on a connection, and does not read the complete answer. The
	// fault stop-reading-clients uses it. If it is nil, the fault makes no such pops.
	PopUnread func(conn net.Conn, choose *rand.Rand)

	// Rewinding is called before the stop of a standby that is promoted later. The function ended is called after the
	// promotion. Unacknowledged commits between the two calls may be lost.
	Rewinding func() (ended func())

	// postgres is locked by a fault that stops Postgres, until Postgres runs again.
	postgres sync.Mutex
	// leading is the index of the primary in nodes. It is written under postgres.
	leading int
}

// New starts a Postgres and servers that use it, and returns when all of them answer. All files are in the existing
// folder dir. If a fault steps clocks, New builds a program with such a clock. pooler is the mode of a pooler between
// the servers and Postgres, or empty. The caller must call Close.
func New(ctx context.Context, dir string, servers int, faults []Fault, pooler string) (_ *World, err error) {
	w := &World{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	// Postgres may run under another account, which must be able to enter the folder.
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, fmt.Errorf("opening the folder for Postgres: %w", err)
	}
	var program string
	if wants(faults, stepClock) && !clock.Steps() {
		program = filepath.Join(dir, "server")
		if err := clock.Build(ctx, dir, program); err != nil {
			return nil, fmt.Errorf("building servers with a clock that can be stepped: %w", err)
		}
	}
	if err := w.startPostgres(ctx, faults); err != nil {
		return nil, err
	}
	w.admin, err = pgxpool.New(ctx, fmt.Sprintf("%s&application_name=chaos&pool_max_conns=%d&pool_min_conns=%d",
		w.dsn(), adminConnections, adminConnections))
	if err != nil {
		return nil, fmt.Errorf("connecting to Postgres: %w", err)
	}
	w.clients, err = pgxpool.New(ctx, fmt.Sprintf("%s&application_name=chaos-sql&pool_max_conns=%d", w.dsn(), sqlConnections))
	if err != nil {
		return nil, fmt.Errorf("connecting to Postgres: %w", err)
	}
	database := w.addresses()
	if pooler != "" { // the pooler has more sessions than the servers have connections
		way := fmt.Sprintf("host=127.0.0.1 port=%d user=postgres pool_mode=%s", w.nodes[0].Port(), pooler)
		if w.pooler, err = pgtest.StartPooler(ctx, dir, map[string]string{databaseName: way}, servers*2*poolSize); err != nil {
			return nil, fmt.Errorf("starting a pooler: %w", err)
		}
		database = []string{w.pooler.Addr}
	}
	for i := range servers {
		s, err := newServer(ctx, fmt.Sprintf("server-%d", i+1), dir, database, w.addresses())
		if err != nil {
			return nil, err
		}
		s.program = program
		w.servers = append(w.servers, s)
		if err := s.start(ctx); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// URLs returns the addresses of the servers over the unreliable network. They never change.
func (w *World) URLs() []string {
	urls := make([]string, len(w.servers))
	for i, s := range w.servers {
		urls[i] = "http://" + s.clients[0].Addr()
	}
	return urls
}

// Database returns a pool of connections to Postgres that bypass the unreliable network.
func (w *World) Database() *pgxpool.Pool { return w.admin }

// Clients returns a pool like Database for the SQL clients of the workload.
func (w *World) Clients() *pgxpool.Pool { return w.clients }

// Close stops the servers and then Postgres. It keeps the folder. The error names servers that did not stop in order.
func (w *World) Close() error {
	var errs []error
	for _, s := range w.servers {
		s.busy.Lock()
		errs = append(errs, s.stop())
		s.busy.Unlock()
	}
	for _, s := range w.servers {
		s.closeNetwork()
	}
	if w.pooler != nil {
		w.pooler.Close()
	}
	if w.admin != nil {
		w.admin.Close()
	}
	if w.clients != nil {
		w.clients.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), clusterPatience)
	defer cancel()
	return errors.Join(errors.Join(errs...), w.stopPostgres(ctx))
}
