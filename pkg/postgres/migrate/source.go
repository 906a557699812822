package migrate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/golang-migrate/migrate/v4/source"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"github.com/belfry-mq/belfry/sql"
)

// Step is one migration.
type Step struct {
	// Version is the version of the schema after the migration. The first is 1.
	Version uint
	// Name is the middle part of the file name.
	Name string
	// SQL is the text of the file, which may have several statements.
	SQL string
}

// versions are the migrations of the binary, in order.
type versions struct {
	driver source.Driver
	steps  []Step
	undo   map[uint]bool // versions that have a .down.sql
	// embedded is set for the migrations of Belfry itself. Their baseline leaves a marker.
	embedded bool
}

// load reads all migrations. It refuses two things that golang-migrate ignores: a
// file whose name it cannot parse, and a version without .up.sql.
func load(fsys fs.FS) (*versions, error) {
	embedded := fsys == nil
	if embedded {
		sub, err := fs.Sub(sql.Migrations, "migrations")
		if err != nil {
			return nil, fmt.Errorf("reading the embedded migrations: %w", err)
		}
		fsys = sub
	}
	if err := checkNames(fsys); err != nil {
		return nil, err
	}
	driver, err := iofs.New(fsys, ".")
	if err != nil {
		return nil, fmt.Errorf("reading the migrations: %w", err)
	}
	v := &versions{driver: driver, undo: map[uint]bool{}, embedded: embedded}
	for version, err := driver.First(); ; version, err = driver.Next(version) {
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("listing the migrations: %w", err)
		}
		if err := v.add(version); err != nil {
			return nil, err
		}
	}
	if len(v.steps) == 0 {
		return nil, errors.New("the binary brings no migrations: it was built without the files of sql/migrations")
	}
	return v, nil
}

func checkNames(fsys fs.FS) error {
	files, err := fs.Glob(fsys, "*.sql")
	if err != nil {
		return fmt.Errorf("listing the migrations: %w", err)
	}
	for _, name := range files {
		m, err := source.DefaultParse(name)
		if err != nil {
			return fmt.Errorf("reading the name of migration %s: %w; name it 000001_what.up.sql or 000001_what.down.sql",
				path.Base(name), err)
		}
		if m.Version == 0 {
			return fmt.Errorf("migration %s has version 0, which stands for the empty schema: start at 1", path.Base(name))
		}
	}
	return nil
}

func (v *versions) add(version uint) error {
	up, name, err := v.driver.ReadUp(version)
	if err != nil {
		return fmt.Errorf("reading the .up.sql file of version %d: %w", version, err)
	}
	text, err := io.ReadAll(up)
	if err := errors.Join(err, up.Close()); err != nil {
		return fmt.Errorf("reading the .up.sql file of version %d: %w", version, err)
	}
	v.steps = append(v.steps, Step{Version: version, Name: name, SQL: string(text)})

	down, _, err := v.driver.ReadDown(version)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the .down.sql file of version %d: %w", version, err)
	}
	v.undo[version] = true
	return down.Close()
}

// latest returns the version the binary was built for.
func (v *versions) latest() uint { return v.steps[len(v.steps)-1].Version }

// after returns the steps beyond version.
func (v *versions) after(version uint) []Step {
	for i, step := range v.steps {
		if step.Version > version {
			return v.steps[i:]
		}
	}
	return nil
}

// upTo returns the steps up to and including version, in order.
func (v *versions) upTo(version uint) []Step {
	return v.steps[:len(v.steps)-len(v.after(version))]
}

// has reports whether the schema can be at version. 0 is the empty schema.
func (v *versions) has(version uint) bool {
	if version == 0 {
		return true
	}
	reached := v.upTo(version)
	return len(reached) > 0 && reached[len(reached)-1].Version == version
}

// refusal returns the reason why a schema with this record cannot be migrated, or
// nil.
func (v *versions) refusal(r record) error {
	switch {
	case v.embedded && r.unreleased():
		return &UnreleasedError{Version: r.applied()}
	case r.version > v.latest():
		return &NewerError{Schema: r.version, Binary: v.latest()}
	case r.dirty:
		return r.dirtyError()
	case !v.has(r.version):
		return fmt.Errorf("the schema is at version %d, which this binary does not know although it knows version %d: "+
			"it was migrated by a binary from another line of development; use that binary", r.version, v.latest())
	default:
		return nil
	}
}
