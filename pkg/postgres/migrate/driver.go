package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/golang-migrate/migrate/v4/database"
	"github.com/jackc/pgx/v5/pgconn"
)

// driver executes the calls of golang-migrate. For each migration the library calls Version, SetVersion(target, dirty), Run and
// SetVersion(target, clean), on one goroutine.
type driver struct {
	ctx    context.Context // of the run; the methods of database.Driver take no context
	s      *session
	from   record // read by Version, used by Run
	target uint   // set by SetVersion, used by Run
}

var _ database.Driver = (*driver)(nil)

// Open is never called: golang-migrate calls it only for drivers in its registry.
func (d *driver) Open(string) (database.Driver, error) {
	return nil, errors.New("this driver runs over an open connection only")
}

// Close does nothing: the caller of connect closes the session.
func (d *driver) Close() error { return nil }

// Lock does nothing: the session already holds the lock.
func (d *driver) Lock() error { return nil }

// Unlock does nothing; see Lock.
func (d *driver) Unlock() error { return nil }

// Drop is refused: Belfry has no command that drops everything.
func (d *driver) Drop() error {
	return errors.New("dropping the schema is not supported: drop the database instead")
}

// Version reads the record.
func (d *driver) Version() (int, bool, error) {
	r, err := d.s.record(d.ctx)
	if err != nil {
		return 0, false, err
	}
	d.from = r
	if r.version == 0 && !r.dirty {
		return database.NilVersion, false, nil
	}
	return int(r.version), r.dirty, nil
}

// SetVersion writes the record if dirty is false. If dirty is true, it only stores the target, and Run writes the mark. After an
// error of SetVersion, golang-migrate would leave a goroutine running.
func (d *driver) SetVersion(version int, dirty bool) error {
	target := uint(max(version, 0))
	if dirty {
		d.target = target
		return nil
	}
	return d.s.write(d.ctx, record{version: target})
}

// Run marks the record dirty and commits. Then one transaction runs the migration
// and clears the mark: Postgres runs the statements of a simple query in one
// transaction. So even if this process dies, a dirty record means that the
// migration has changed nothing.
func (d *driver) Run(migration io.Reader) error {
	text, err := io.ReadAll(migration)
	if err != nil {
		return fmt.Errorf("reading the migration of version %d: %w", d.target, err)
	}
	if err := d.s.write(d.ctx, record{version: d.target, dirty: true, previous: &d.from.version}); err != nil {
		return err
	}
	if err := d.s.runPatiently(d.ctx, string(text)+"\n;\n"+cleanRecord); err != nil {
		return d.failed(string(text), err)
	}
	return nil
}

// failed explains err. If the reason is outside of the migration, failed restores
// the record, so the migration can be run again.
func (d *driver) failed(text string, err error) error {
	what := fmt.Sprintf("migrating from version %d to version %d", d.from.version, d.target)
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || d.s.conn.IsClosed() {
		return fmt.Errorf("%s: %w; the connection was lost, so it is not known whether the migration was committed: "+
			"look with \"belfry migrate status\"", what, err)
	}
	advice := externalCauseAdvice(pg.Code)
	if advice == "" {
		dirty := record{version: d.target, dirty: true, previous: &d.from.version}
		return fmt.Errorf("%s: %w%s; %w", what, err, errorPosition(text, pg), dirty.dirtyError())
	}
	if d.ctx.Err() != nil {
		err = fmt.Errorf("%w (%w)", d.ctx.Err(), err)
	}
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(d.ctx), cleanupTimeout)
	defer cancel()
	if restore := d.s.write(cleanup, d.from); restore != nil {
		return fmt.Errorf("%s: %w. It was rolled back, but its record was not: %w; look with \"belfry migrate status\"", what, err, restore)
	}
	return fmt.Errorf("%s: %w. It was rolled back and nothing was changed: %s", what, err, advice)
}

// externalCauseAdvice returns the advice for a failure whose reason is outside of the migration, and "" if the
// migration itself may be wrong.
func externalCauseAdvice(state string) string {
	switch {
	case state == "55P03":
		return "a statement waited too long for a lock that another session holds (a long transaction, a backup, an open psql); " +
			"find the session with the oldest xact_start in pg_stat_activity, end it or wait for it, and run this again"
	case state == "57014":
		return "it was cancelled; run it again when it may finish"
	case strings.HasPrefix(state, "40"):
		return "it collided with the work of another session; run it again"
	case strings.HasPrefix(state, "53"):
		return "the database server ran short of disk, memory or connections; give it more and run this again"
	case state == "42501":
		return "grant the role what it lacks, or migrate with the role that owns the schema"
	default:
		return ""
	}
}

// errorPosition returns the line of the migration at which Postgres found the error, with
// its detail and hint.
func errorPosition(text string, pg *pgconn.PgError) string {
	var b strings.Builder
	// Position counts characters from 1. A position beyond the text is inside cleanRecord.
	if chars := []rune(text); pg.Position > 0 && int(pg.Position) <= len(chars) {
		fmt.Fprintf(&b, ", line %d of the file", 1+strings.Count(string(chars[:pg.Position-1]), "\n"))
	}
	if pg.Detail != "" {
		fmt.Fprintf(&b, ", detail: %s", pg.Detail)
	}
	if pg.Hint != "" {
		fmt.Fprintf(&b, ", hint: %s", pg.Hint)
	}
	return b.String()
}
