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
	defaultStatementLockTimeout = 10 * time.Second
)

// Config says what to migrate, and how patiently.
type Config struct {
	// URL is a DSN of Postgres that does not go through a pooler: the lock
	// belongs to the session.
	URL string
	// LockTimeout is how long to wait for another instance that is migrating;
	// zero means one minute.
	LockTimeout time.Duration
	// StatementLockTimeout is how long one statement of a migration may wait for
	// a table somebody else is using; zero means ten seconds.
	StatementLockTimeout time.Duration
	// Source holds NNNNNN_name.up.sql and NNNNNN_name.down.sql in its root; nil
	// means the files embedded in the binary.
	Source fs.FS
}

// Migrator moves the schema between versions. Every method opens a connection
// of its own and closes it before it returns, so a Migrator needs no Close and
// may be used from several goroutines.
//
// Every method ends when ctx does. A migration that is running then is rolled
// back, and the schema stays at the version before it.
type Migrator struct {
	cfg Config
	log *zap.Logger
}

// New makes a Migrator. It touches neither the database nor the files; what is
// wrong with them is reported by the methods. A nil log stays silent.
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

// Up runs every migration the schema lacks. Nothing to run is no error, and
// then no right beyond reading the record is needed. It blocks while another
// instance migrates, until that one is done, LockTimeout has passed
// (LockedError) or ctx ends.
//
// Errors: UnreleasedError, DirtyError, NewerError, LockedError, what the failed statement said,
// or why the database cannot be reached.
func (m *Migrator) Up(ctx context.Context) error {
	return m.locked(ctx, func(s *session, v *versions, r record) error {
		if err := v.refuse(r); err != nil {
			return err
		}
		pending := v.after(r.version)
		if len(pending) == 0 {
			m.log.Debug("the schema is up to date", zap.Uint("version", r.version))
			return nil
		}
		return m.walk(ctx, s, v, pending, 1)
	})
}

// Down undoes the last steps migrations, one by one, and destroys the data they
// made room for. It does nothing at all if fewer are applied or one of them has
// no .down.sql file. It blocks and fails as Up does.
func (m *Migrator) Down(ctx context.Context, steps int) error {
	if steps < 1 {
		return fmt.Errorf("undoing %d migrations is not possible: give a number from 1", steps)
	}
	return m.locked(ctx, func(s *session, v *versions, r record) error {
		if err := v.refuse(r); err != nil {
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
		return m.walk(ctx, s, v, undone, -1)
	})
}

// Force writes version into the record, marks it clean and touches nothing
// else. It is the repair of a dirty schema; DirtyError says which version is
// right. 0 is the empty schema. A version the binary does not know is refused.
// It blocks while another instance migrates, as Up does.
func (m *Migrator) Force(ctx context.Context, version int) error {
	return m.locked(ctx, func(s *session, v *versions, r record) error {
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
			target = -1 // golang-migrate's word for the empty schema
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

// locked runs work under the migration lock, with the record read under it.
func (m *Migrator) locked(ctx context.Context, work func(*session, *versions, record) error) error {
	v, err := load(m.cfg.Source)
	if err != nil {
		return err
	}
	s, err := m.connect(ctx)
	if err != nil {
		return err
	}
	defer s.close(ctx)
	if err := s.lock(ctx, m.cfg.LockTimeout, m.log); err != nil {
		return err
	}
	defer s.unlock(ctx)
	r, err := s.record(ctx)
	if err != nil {
		return err
	}
	return work(s, v, r)
}

// walk runs steps one at a time in the given direction. One at a time, because
// golang-migrate reads ahead in goroutines which it leaves behind on failure.
func (m *Migrator) walk(ctx context.Context, s *session, v *versions, steps []Step, direction int) error {
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

// newEngine joins golang-migrate, our files and our connection. It needs no
// Close: neither side holds anything of its own.
func newEngine(ctx context.Context, s *session, v *versions) (*gomigrate.Migrate, error) {
	engine, err := gomigrate.NewWithInstance("files", v.driver, "belfry", &driver{ctx: ctx, s: s})
	if err != nil {
		return nil, fmt.Errorf("preparing the migrations: %w", err)
	}
	return engine, nil
}
