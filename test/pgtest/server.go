package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres/devdb"
	"github.com/belfry-mq/belfry/pkg/postgres/migrate"
)

const serverVariable = "BELFRY_TEST_DATABASE_URL"

var errNoMain = errors.New("the package has no TestMain that calls pgtest.Main, so the server would never stop: add one")

// server creates and drops databases on the private server, or on the server that serverVariable names. It uses one
// connection, because Postgres cannot copy a database while another session is connected to it.
type server struct {
	mu       sync.Mutex
	allowed  bool           // true while Main runs the tests
	cluster  *devdb.Cluster // nil for a server named by serverVariable
	base     *url.URL       // DSN of any database of the server
	admin    *pgx.Conn      // nil until the first call
	template string         // the name of the migrated database; empty before it exists
	strategy string         // how CREATE DATABASE copies the template
	failed   error          // the error of a failed start; no later test tries again
}

func (s *server) allow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.allowed = true
}

// maker creates a database. The caller holds the lock.
type maker func(s *server, ctx context.Context, name string) error

// create creates a database and returns its DSN and name.
func (s *server) create(ctx context.Context, create maker) (dsn, name string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.allowed {
		return "", "", errNoMain
	}
	if s.failed != nil {
		return "", "", s.failed
	}
	if s.admin == nil {
		if err := s.startLocked(ctx); err != nil {
			s.failed = err
			return "", "", err
		}
	}
	name = newName("test")
	if err := create(s, ctx, name); err != nil {
		return "", "", err
	}
	return s.dsn(name), name, nil
}

func (s *server) emptyLocked(ctx context.Context, name string) error {
	return s.execLocked(ctx, "CREATE DATABASE "+name+" TEMPLATE template1")
}

// optionsLocked returns a maker whose database has other options than the template.
func optionsLocked(options string) maker {
	return func(s *server, ctx context.Context, name string) error {
		if err := s.execLocked(ctx, "CREATE DATABASE "+name+" TEMPLATE template0 "+options); err != nil {
			return err
		}
		return s.migrate(ctx, name)
	}
}

func (s *server) migratedLocked(ctx context.Context, name string) error {
	source, err := s.templateLocked(ctx)
	if err != nil {
		return err
	}
	return s.execLocked(ctx, "CREATE DATABASE "+name+" TEMPLATE "+source+s.strategy)
}

func (s *server) migrate(ctx context.Context, name string) error {
	return migrate.New(migrate.Config{URL: s.dsn(name), LockTimeout: time.Minute}, zap.NewNop()).Up(ctx)
}

// drop removes a database and ends its sessions.
func (s *server) drop(ctx context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.execLocked(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
}

// close drops the template and stops the server if there is one.
func (s *server) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.allowed = false
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	var err error
	if s.template != "" && s.cluster == nil { // a private server is removed with all its databases
		err = s.execLocked(ctx, "DROP DATABASE IF EXISTS "+s.template+" WITH (FORCE)")
	}
	if s.admin != nil {
		err = errors.Join(err, s.admin.Close(ctx))
	}
	if s.cluster != nil {
		err = errors.Join(err, removeCluster(s.cluster))
	}
	s.admin, s.cluster, s.template = nil, nil, ""
	return err
}

func (s *server) startLocked(ctx context.Context) (err error) {
	base := os.Getenv(serverVariable)
	if base == "" {
		if s.cluster, err = startCluster(ctx, migrated); err != nil {
			return fmt.Errorf("starting Postgres (or set %s to use another server): %w", serverVariable, err)
		}
		base, s.template = s.cluster.URL("postgres"), migratedName
	}
	if s.base, err = url.Parse(base); err != nil || s.base.Host == "" {
		return fmt.Errorf("reading %s: it must be a URL such as postgres://user@host:5432/postgres", serverVariable)
	}
	if s.admin, err = pgx.Connect(ctx, base); err != nil {
		return fmt.Errorf("connecting to the test server: %w", err)
	}
	// Copying the files takes a third of the processor time of copying through the WAL. Postgres 14 always copies the
	// files.
	var choice bool
	if err := s.admin.QueryRow(ctx, "SELECT current_setting('server_version_num')::int >= 150000").Scan(&choice); err != nil {
		return fmt.Errorf("reading the version of the test server: %w", err)
	}
	if choice {
		s.strategy = " STRATEGY file_copy"
	}
	return nil
}

// templateLocked creates the template at the first call. A private server already has a template. The name is stored only
// after the migration, so that every test reports a failed migration.
func (s *server) templateLocked(ctx context.Context) (string, error) {
	if s.template != "" {
		return s.template, nil
	}
	name := newName("template")
	if err := s.makeTemplateLocked(ctx, name); err != nil {
		return "", err
	}
	s.template = name
	return name, nil
}

// makeTemplateLocked creates a migrated database and forbids connections to it, because an open session would block every
// copy.
func (s *server) makeTemplateLocked(ctx context.Context, name string) error {
	if err := s.execLocked(ctx, "CREATE DATABASE "+name); err != nil {
		return err
	}
	err := s.migrate(ctx, name)
	if err == nil {
		err = s.execLocked(ctx, "ALTER DATABASE "+name+" WITH ALLOW_CONNECTIONS false")
	}
	if err != nil {
		err = fmt.Errorf("migrating the template of the test databases: %w", err)
		return errors.Join(err, s.execLocked(ctx, "DROP DATABASE "+name+" WITH (FORCE)"))
	}
	return nil
}

func (s *server) execLocked(ctx context.Context, statement string) error {
	if s.admin == nil {
		return fmt.Errorf("running %q: the server is stopped", statement)
	}
	if _, err := s.admin.Exec(ctx, statement); err != nil {
		return fmt.Errorf("running %q: %w", statement, err)
	}
	return nil
}

func (s *server) dsn(database string) string {
	dsn := *s.base
	dsn.Path, dsn.RawPath = "/"+database, ""
	return dsn.String()
}

// newName returns a name that needs no quotes. It is unique even if several test processes share a server.
func newName(kind string) string {
	id := uuid.New()
	return fmt.Sprintf("belfry_%s_%x", kind, id[:8])
}
