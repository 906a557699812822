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

// driver runs what golang-migrate decides. For each migration that library calls
// Version, SetVersion(target, dirty), Run, SetVersion(target, clean), one after
// another on one goroutine.
type driver struct {
	ctx    context.Context // of the run: the methods of database.Driver take none
	s      *session
	from   record // read by Version, used by Run
	target uint   // set by SetVersion, used by Run
}

var _ database.Driver = (*driver)(nil)

// Open is only called through golang-migrate's registry, where this driver is
// not.
func (d *driver) Open(string) (database.Driver, error) {
	return nil, errors.New("this driver runs over an open connection only")
}

// Close does nothing: the connection belongs to the session's opener.
func (d *driver) Close() error { return nil }

// Lock does nothing: the session has held the lock since before the record was
// read.
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

// SetVersion with dirty set announces the migration that Run is about to get,
// which writes the mark itself: golang-migrate leaves a goroutine behind when
// something fails between the two. Otherwise it writes the record.
func (d *driver) SetVersion(version int, dirty bool) error {
	target := uint(max(version, 0))
	if dirty {
		d.target = target
		return nil
	}
	return d.s.write(d.ctx, record{version: target})
}

// Run marks the record dirty and commits that; then it runs one migration and
// clears the mark in a single transaction. Postgres makes one transaction of
// the statements of a simple query, so even if this process dies now, a dirty
// record always means that nothing of the migration is there.
func (d *driver) Run(migration io.Reader) error {
	text, err := io.ReadAll(migration)
	if err != nil {
		return fmt.Errorf("reading the migration of version %d: %w", d.target, err)
	}
	if err := d.s.write(d.ctx, record{version: d.target, dirty: true, previous: &d.from.version}); err != nil {
		return err
	}
	err = d.s.conn.PgConn().Exec(d.ctx, string(text)+"\n;\n"+cleanRecord).Close()
	if err != nil {
		return d.failed(string(text), err)
	}
	return nil
}

// failed explains err. A migration that was rolled back for a reason that lies
// outside of it gets the old record back: it can simply be run again.
func (d *driver) failed(text string, err error) error {
	what := fmt.Sprintf("migrating from version %d to version %d", d.from.version, d.target)
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || d.s.conn.IsClosed() {
		return fmt.Errorf("%s: %w; the connection was lost, so it is not known whether the migration was committed: "+
			"look with \"belfry migrate status\"", what, err)
	}
	advice := outside(pg.Code)
	if advice == "" {
		dirty := record{version: d.target, dirty: true, previous: &d.from.version}
		return fmt.Errorf("%s: %w%s; %w", what, err, place(text, pg), dirty.dirtyError())
	}
	if d.ctx.Err() != nil {
		err = fmt.Errorf("%w (%w)", d.ctx.Err(), err)
	}
	parting, cancel := context.WithTimeout(context.WithoutCancel(d.ctx), partingTimeout)
	defer cancel()
	if restore := d.s.write(parting, d.from); restore != nil {
		return fmt.Errorf("%s: %w. It was rolled back, but its record was not: %w; look with \"belfry migrate status\"", what, err, restore)
	}
	return fmt.Errorf("%s: %w. It was rolled back and nothing was changed: %s", what, err, advice)
}

// outside says what to do when the reason of a failure lies outside of the
// migration; "" when the migration itself may be at fault.
func outside(state string) string {
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

// place says where in the migration Postgres found the mistake, and what else
// it told.
func place(text string, pg *pgconn.PgError) string {
	var b strings.Builder
	// Position counts characters from 1; past the end it lies in cleanRecord.
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
