package migrate

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	gomigrate "github.com/golang-migrate/migrate/v4"
	"go.uber.org/zap"
)

const (
	defaultLockTimeout          = time.Minute
	defaultStatementLockTimeout = time.Second
)

// Config has the database, the migrations and the timeouts.
type Config struct {
	// URL is a DSN of Postgres without a pooler, because the lock belongs to the
	// session.
	URL string
	// ConnectTimeout bounds the attempt to connect. Zero means the limit of postgres.Connect.
	ConnectTimeout time.Duration
	// LockTimeout bounds the wait for another instance that is migrating, and the
	// tries of a migration whose table is in use. Zero means one minute.
	LockTimeout time.Duration
	// StatementLockTimeout bounds the wait of one statement for a table that another session uses. The migration is repeated until
	// LockTimeout has passed. Zero means one second.
	StatementLockTimeout time.Duration
	// Source holds NNNNNN_name.up.sql and NNNNNN_name.down.sql in its root. Nil
	// means the files embedded in the binary.
	Source fs.FS
}

// Migrator moves the schema between versions. Every method opens its own
// connection and closes it before it returns. So a Migrator needs no Close, and
// several goroutines may use it.
//
// Every method returns when ctx ends. A migration that is running at that time is rolled back, so the schema keeps the version
// before the migration.
type Migrator struct {
	cfg Config
	log *zap.Logger
}

// New returns a Migrator. New does not read the database or the files. The methods report problems with them. A nil log is
// allowed.
func New(cfg Config, log *zap.Logger) *Migrator {
	if cfg.LockTimeout <= 0 {
		cfg.LockTimeout = defaultLockTimeout
	}
	if cfg.StatementLockTimeout <= 0 {
		cfg.StatementLockTimeout = defaultStatementLockTimeout
	}
	if log == nil {
		log = zap.NewNop()
	}
	return &Migrator{cfg: cfg, log: log}
}

// Up runs every migration that the schema lacks. If none is pending, it returns nil at once, without the lock, and needs only the
// right to read the record. It blocks while another instance migrates, or a stranger holds the lock. It stops waiting after
// LockTimeout (LockedError), or when ctx ends.
//
// Errors: UnreleasedError, DirtyError, NewerError, LockedError, the
// error of the failed statement, or the reason why the database is unreachable.
func (m *Migrator) Up(ctx context.Context) error {
	return m.withSession(ctx, func(s *session, v *versions) error {
		up := func(r record) error {
			if err := v.refusal(r); err != nil {
				return err
			}
			pending := v.after(r.version)
			if len(pending) == 0 {
				m.log.Debug("the schema is up to date", zap.Uint("version", r.version))
				return nil
			}
			return m.runSteps(ctx, s, v, pending, 1)
		}
		r, err := s.record(ctx)
		if err != nil {
			return err
		}
		if !r.dirty && len(v.after(r.version)) == 0 {
			return up(r)
		}
		return m.locked(ctx, s, up)
	})
}

// Down undoes the last steps migrations, one by one, and destroys the data in the tables and columns that they made. Down changes
// nothing if fewer migrations are applied, or if one of the migrations has no .down.sql file. It blocks and fails like Up.
func (m *Migrator) Down(ctx context.Context, steps int) error {
	if steps < 1 {
		return fmt.Errorf("undoing %d migrations is not possible: give a number from 1", steps)
	}
	return m.withLock(ctx, func(s *session, v *versions, r record) error {
		if err := v.refusal(r); err != nil {
			return err
		}
		applied := v.upTo(r.version)
		if steps > len(applied) {
			return fmt.Errorf("undoing %d migrations is not possible: only %d are applied; nothing was changed", steps, len(applied))
		}
		undone := applied[len(applied)-steps:]
		for _, step := range undone {
			if !v.undo[step.Version] {
				return fmt.Errorf("version %d (%s) cannot be undone: it has no .down.sql file; nothing was changed", step.Version, step.Name)
			}
		}
		return m.runSteps(ctx, s, v, undone, -1)
	})
}

// Force writes version into the record, marks the record clean and changes nothing else. It repairs a dirty schema; DirtyError
// names the right version. 0 is the empty schema. Force refuses a version that the binary does not know. It blocks while another
// instance migrates, like Up.
func (m *Migrator) Force(ctx context.Context, version int) error {
	return m.withLock(ctx, func(s *session, v *versions, r record) error {
		if version < 0 || !v.has(uint(version)) {
			return fmt.Errorf("version %d is not one of this binary's versions (0 for the empty schema, latest %d): nothing was changed",
				version, v.latest())
		}
		if v.embedded && r.unreleased() {
			return &UnreleasedError{Version: r.applied()}
		}
		if r.version > v.latest() {
			return &NewerError{Schema: r.version, Binary: v.latest()}
		}
		if err := s.prepare(ctx); err != nil {
			return err
		}
		target := version
		if version == 0 {
			target = -1 // the empty schema in golang-migrate
		}
		engine, err := newEngine(ctx, s, v)
		if err != nil {
			return err
		}
		if err := engine.Force(target); err != nil {
			return err
		}
		m.log.Warn("the schema's version was forced", zap.Int("version", version),
			zap.Uint("was", r.version), zap.Bool("was_dirty", r.dirty))
		return nil
	})
}

// withLock runs work while it holds the migration lock. work gets the record that was read under the lock.
func (m *Migrator) withLock(ctx context.Context, work func(*session, *versions, record) error) error {
	return m.withSession(ctx, func(s *session, v *versions) error {
		return m.locked(ctx, s, func(r record) error { return work(s, v, r) })
	})
}

// withSession runs work with a connection and the migrations.
func (m *Migrator) withSession(ctx context.Context, work func(*session, *versions) error) error {
	v, err := load(m.cfg.Source)
	if err != nil {
		return err
	}
	s, err := m.connect(ctx)
	if err != nil {
		return err
	}
	defer s.close(ctx)
	return work(s, v)
}

// locked runs work while s holds the migration lock. It reads the record under that lock.
func (m *Migrator) locked(ctx context.Context, s *session, work func(record) error) error {
	if err := s.lock(ctx, m.cfg.LockTimeout, m.log); err != nil {
		return err
	}
	defer s.unlock(ctx)
	r, err := s.record(ctx)
	if err != nil {
		return err
	}
	return work(r)
}

// runSteps runs steps in the given direction, with one call of golang-migrate for each step. With one call for several steps, the
// library reads ahead in goroutines, and leaves them running after a failure.
func (m *Migrator) runSteps(ctx context.Context, s *session, v *versions, steps []Step, direction int) error {
	if err := s.checkOwner(ctx); err != nil {
		return err
	}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	engine, err := newEngine(ctx, s, v)
	if err != nil {
		return err
	}
	for i := range steps {
		step, done := steps[i], "migrated"
		if direction < 0 {
			step, done = steps[len(steps)-1-i], "undone"
		}
		if ctx.Err() != nil {
			return fmt.Errorf("stopping before version %d (%s): %w", step.Version, step.Name, ctx.Err())
		}
		started := time.Now()
		if err := engine.Steps(direction); err != nil {
			return err
		}
		m.log.Info("schema "+done, zap.Uint("version", step.Version), zap.String("name", step.Name),
			zap.Duration("took", time.Since(started).Round(time.Millisecond)))
	}
	return nil
}

// newEngine returns a golang-migrate engine for the files of v and the connection of s. The engine needs no Close, because it
// does not open them.
func newEngine(ctx context.Context, s *session, v *versions) (*gomigrate.Migrate, error) {
	engine, err := gomigrate.NewWithInstance("files", v.driver, "belfry", &driver{ctx: ctx, s: s})
	if err != nil {
		return nil, fmt.Errorf("preparing the migrations: %w", err)
	}
	return engine, nil
}
