package migrate

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	"go.uber.org/zap"
)

const (
	defaultLockTimeout          = time.Minute
	defaultStatementLockTimeout = 10 * time.Second
)

// Config has the database, the migrations and the timeouts.
type Config struct {
	// URL is a DSN of Postgres without a pooler, because the lock belongs to the
	// session.
	URL string
	// LockTimeout bounds the wait for another instance that is migrating. Zero
	// means one minute.
	LockTimeout time.Duration
	// StatementLockTimeout bounds the wait of one statement for a table that
	// another session uses. Zero means ten seconds.
	StatementLockTimeout time.Duration
	// Source holds NNNNNN_name.up.sql and NNNNNN_name.down.sql in its root. Nil
	// means the files embedded in the binary.
	Source fs.FS
}

// Migrator moves the schema between versions. Every method opens its own
// connection and closes it before it returns. So a Migrator needs no Close, and
// several goroutines may use it.
//
// Every method returns when ctx ends. A migration that is running then is rolled
// back, and the schema stays at the version before it.
type Migrator struct {
	cfg Config
	log *zap.Logger
}

// New returns a Migrator. It reads neither the database nor the files: the
// methods report problems with them. A nil log is allowed.
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

// Up runs every migration that the schema lacks. If none is pending, it returns
// nil and needs only the right to read the record. It blocks while another
// instance migrates, until that instance is done, LockTimeout has passed
// (LockedError) or ctx ends.
//
// Errors: UnreleasedError, DirtyError, NewerError, LockedError, the
// error of the failed statement, or the reason why the database is unreachable.
func (m *Migrator) Up(ctx context.Context) error {
	return m.withLock(ctx, func(s *session, v *versions, r record) error {
		if err := v.refusal(r); err != nil {
			return err
		}
		from, moves := r.version, []move(nil)
		for _, step := range v.after(r.version) {
			moves = append(moves, move{step: step, from: from, to: step.Version, text: step.SQL})
			from = step.Version
		}
		if len(moves) == 0 {
			m.log.Debug("the schema is up to date", zap.Uint("version", r.version))
			return nil
		}
		return m.runAll(ctx, s, moves, "schema migrated")
	})
}

// Down undoes the last steps migrations, one by one, and destroys the data in
// the tables and columns that they made. It changes nothing if fewer migrations
// are applied, or if one of them has no .down.sql file. It blocks and fails like
// Up.
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
		var moves []move
		for i := len(applied) - 1; i >= len(applied)-steps; i-- {
			step := applied[i]
			text, found := v.down[step.Version]
			if !found {
				return fmt.Errorf("version %d (%s) cannot be undone: it has no .down.sql file; nothing was changed", step.Version, step.Name)
			}
			var to uint
			if i > 0 {
				to = applied[i-1].Version
			}
			moves = append(moves, move{step: step, from: step.Version, to: to, text: text})
		}
		return m.runAll(ctx, s, moves, "schema undone")
	})
}

// Force writes version into the record, marks it clean and changes nothing else.
// It repairs a dirty schema; DirtyError names the right version. 0 is the empty
// schema. A version that the binary does not know is refused. It blocks while
// another instance migrates, like Up.
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
		if err := s.write(ctx, record{version: uint(version)}); err != nil {
			return err
		}
		m.log.Warn("the schema's version was forced", zap.Int("version", version),
			zap.Uint("was", r.version), zap.Bool("was_dirty", r.dirty))
		return nil
	})
}

// withLock runs work while it holds the migration lock. It reads the record under
// that lock.
func (m *Migrator) withLock(ctx context.Context, work func(*session, *versions, record) error) error {
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

// runAll runs moves in order and logs each of them as done.
func (m *Migrator) runAll(ctx context.Context, s *session, moves []move, done string) error {
	if err := s.prepare(ctx); err != nil {
		return err
	}
	for _, next := range moves {
		version, name := next.step.Version, next.step.Name
		if ctx.Err() != nil {
			return fmt.Errorf("stopping before version %d (%s): %w", version, name, ctx.Err())
		}
		started := time.Now()
		if err := s.run(ctx, next); err != nil {
			return err
		}
		m.log.Info(done, zap.Uint("version", version), zap.String("name", name),
			zap.Duration("took", time.Since(started).Round(time.Millisecond)))
	}
	return nil
}
