package migrate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/sql"
)

// These statements are not in sql/queries, because they run before the schema
// exists and cannot be checked against it.
const (
	hasRecord = `SELECT to_regclass('belfry.schema_migrations') IS NOT NULL`
	// readRecord also compares the marker of the schema with the marker of the binary. One statement reads the record and the
	// marker, because another instance may commit the baseline at any time.
	readRecord = `SELECT version, dirty, previous, coalesce(obj_description(to_regprocedure('belfry.baseline()'), 'pg_proc') = $1, false)
  FROM belfry.schema_migrations`
	clearRecord = `DELETE FROM belfry.schema_migrations`
	writeRecord = `INSERT INTO belfry.schema_migrations (version, dirty, previous) VALUES ($1, $2, $3)`
	// cleanRecord runs as the last statement of every migration.
	cleanRecord = `UPDATE belfry.schema_migrations SET dirty = false, previous = NULL`

	// foreignOwner finds a role that owns a table of the schema and whose rights the current role does not have.
	foreignOwner = `
SELECT quote_ident(current_user), quote_ident(pg_get_userbyid(relowner)) FROM pg_class
 WHERE relnamespace = to_regnamespace('belfry') AND relkind IN ('r', 'p') AND NOT pg_has_role(relowner, 'USAGE') LIMIT 1`

	hasSchema    = `SELECT to_regnamespace('belfry') IS NOT NULL`
	createSchema = `CREATE SCHEMA IF NOT EXISTS belfry`
	createRecord = `CREATE TABLE IF NOT EXISTS belfry.schema_migrations (
	version bigint NOT NULL PRIMARY KEY, dirty boolean NOT NULL, previous bigint)`
)

// baselineMarker returns the comment that the baseline gives to the function belfry.baseline: a digest of the text of the
// baseline.
var baselineMarker = sync.OnceValue(func() string {
	text, err := fs.ReadFile(sql.Migrations, "migrations/000001_baseline.up.sql")
	found := markerComment.FindSubmatch(text)
	if err != nil || found == nil {
		panic("the baseline migration of the binary has no marker")
	}
	return string(found[1])
})

var markerComment = regexp.MustCompile(`(?m)^COMMENT ON FUNCTION belfry\.baseline\(\) IS '([0-9a-f]+)';$`)

// record is the version record of the database. No row and a row with version -1
// both mean version 0: golang-migrate writes -1 for the empty schema.
type record struct {
	version  uint
	dirty    bool
	previous *uint // the version the schema still has; only while dirty, nil if unknown
	baseline bool  // the baseline migration of this binary made the schema
}

// applied returns the version that the tables have.
func (r record) applied() uint {
	if r.dirty && r.previous != nil {
		return *r.previous
	}
	return r.version
}

// unreleased reports whether an unreleased version of Belfry made the schema. A
// dirty record of another tool does not say which version the schema has.
func (r record) unreleased() bool {
	if r.dirty && r.previous == nil {
		return false
	}
	return r.applied() > 0 && !r.baseline
}

func (r record) dirtyError() *DirtyError {
	e := &DirtyError{Version: r.version}
	if r.previous != nil {
		e.Previous, e.Known = *r.previous, true
	}
	return e
}

func (s *session) record(ctx context.Context) (record, error) {
	var exists bool
	if err := s.conn.QueryRow(ctx, hasRecord).Scan(&exists); err != nil {
		return record{}, postgres.Explain(ctx, s.conn, fmt.Errorf("looking for the record of the schema's version: %w", err))
	}
	if !exists {
		return record{}, nil
	}
	var version int64
	var previous *int64
	var r record
	err := s.conn.QueryRow(ctx, readRecord, baselineMarker()).Scan(&version, &r.dirty, &previous, &r.baseline)
	if errors.Is(err, pgx.ErrNoRows) {
		return record{}, nil
	}
	if err != nil {
		return record{}, postgres.Explain(ctx, s.conn, fmt.Errorf("reading the record of the schema's version: %w", err))
	}
	r.version = uint(max(version, 0))
	if previous != nil {
		p := uint(max(*previous, 0))
		r.previous = &p
	}
	return r, nil
}

// write replaces the record and commits it.
func (s *session) write(ctx context.Context, r record) error {
	err := pgx.BeginFunc(ctx, s.conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, clearRecord); err != nil {
			return err
		}
		if r.version == 0 && !r.dirty {
			return nil
		}
		version := int64(r.version)
		if version == 0 {
			version = -1
		}
		_, err := tx.Exec(ctx, writeRecord, version, r.dirty, r.previous)
		return err
	})
	if err != nil {
		return postgres.Explain(ctx, s.conn, fmt.Errorf("recording version %d of the schema: %w", r.version, err))
	}
	return nil
}

// checkOwner returns a postgres.Problem if a table of the schema belongs to another role, because only the owner of a table may
// change it.
func (s *session) checkOwner(ctx context.Context) error {
	var role, owner string
	err := s.conn.QueryRow(ctx, foreignOwner).Scan(&role, &owner)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for the owner of the schema: %w", err)
	}
	return postgres.NewProblem(fmt.Sprintf("the role %s may not migrate the schema belfry, whose tables belong to the role %s: migrate with that role, or run GRANT %[2]s TO %[1]s",
		role, owner))
}

// prepare creates the schema and the record if they are missing. It looks for the schema first, because CREATE SCHEMA IF NOT
// EXISTS needs the right to create a schema even if the schema exists.
func (s *session) prepare(ctx context.Context) error {
	var exists bool
	err := s.conn.QueryRow(ctx, hasSchema).Scan(&exists)
	if err == nil && !exists {
		_, err = s.conn.Exec(ctx, createSchema)
	}
	if err == nil {
		_, err = s.conn.Exec(ctx, createRecord)
	}
	if err != nil {
		return postgres.Explain(ctx, s.conn, fmt.Errorf("creating the schema belfry and its version record: %w", err))
	}
	return nil
}
