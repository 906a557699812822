package migrate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// move runs or undoes one step. from and to are neighbouring versions.
type move struct {
	step     Step
	from, to uint
	text     string
}

// run marks the record dirty and commits. Then one transaction runs the migration and
// writes the new record: Postgres runs the statements of a simple query in one
// transaction. So even if this process dies, a dirty record means that the migration has
// changed nothing.
func (s *session) run(ctx context.Context, m move) error {
	if err := s.write(ctx, record{version: m.to, dirty: true, previous: &m.from}); err != nil {
		return err
	}
	clean := cleanRecord
	if m.to == 0 {
		clean = clearRecord
	}
	if err := s.conn.PgConn().Exec(ctx, m.text+"\n;\n"+clean).Close(); err != nil {
		return s.failed(ctx, m, err)
	}
	return nil
}

// failed explains err. If the reason is outside of the migration, failed restores
// the record, so the migration can be run again.
func (s *session) failed(ctx context.Context, m move, err error) error {
	what := fmt.Sprintf("migrating from version %d to version %d", m.from, m.to)
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || s.conn.IsClosed() {
		return fmt.Errorf("%s: %w; the connection was lost, so it is not known whether the migration was committed: "+
			"look with \"belfry migrate status\"", what, err)
	}
	advice := externalCauseAdvice(pg.Code)
	if advice == "" {
		dirty := &DirtyError{Version: m.to, Previous: m.from, Known: true}
		return fmt.Errorf("%s: %w%s; %w", what, err, errorPosition(m.text, pg), dirty)
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("%w (%w)", ctx.Err(), err)
	}
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	if restore := s.write(cleanup, record{version: m.from}); restore != nil {
		return fmt.Errorf("%s: %w. It was rolled back, but its record was not: %w; look with \"belfry migrate status\"", what, err, restore)
	}
	return fmt.Errorf("%s: %w. It was rolled back and nothing was changed: %s", what, err, advice)
}

// externalCauseAdvice returns the advice for a failure whose reason is outside of the
// migration, and "" if the migration itself may be wrong.
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
	// Position counts characters from 1. Beyond the text it is inside cleanRecord.
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
