package migrate

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/golang-migrate/migrate/v4/source"

	"github.com/belfry-mq/belfry/sql"
)

// Step is one migration.
type Step struct {
	// Version is the version of the schema after the migration. The first is 1.
	Version uint
	// Name is the middle part of the file name.
	Name string
	// SQL is the text of the file, several statements.
	SQL string
}

// versions are the migrations of the binary, in order.
type versions struct {
	steps []Step
	down  map[uint]string // the texts of the .down.sql files
	// embedded is set for the migrations of Belfry itself. Their baseline leaves a marker.
	embedded bool
}

// load reads all migrations. The file names follow golang-migrate.
func load(fsys fs.FS) (*versions, error) {
	v := &versions{down: map[uint]string{}, embedded: fsys == nil}
	if v.embedded {
		sub, err := fs.Sub(sql.Migrations, "migrations")
		if err != nil {
			return nil, fmt.Errorf("reading the embedded migrations: %w", err)
		}
		fsys = sub
	}
	files, err := fs.Glob(fsys, "*.sql")
	if err != nil {
		return nil, fmt.Errorf("listing the migrations: %w", err)
	}
	for _, name := range files {
		if err := v.add(fsys, name); err != nil {
			return nil, err
		}
	}
	if len(v.steps) == 0 {
		return nil, errors.New("the binary brings no migrations: it was built without the files of sql/migrations")
	}
	slices.SortFunc(v.steps, func(a, b Step) int { return cmp.Compare(a.Version, b.Version) })
	for version := range v.down {
		if !v.has(version) {
			return nil, fmt.Errorf("the .up.sql file of version %d is missing", version)
		}
	}
	return v, nil
}

// add reads one file.
func (v *versions) add(fsys fs.FS, name string) error {
	m, err := source.DefaultParse(name)
	if err != nil {
		return fmt.Errorf("reading the name of migration %s: %w; name it 000001_what.up.sql or 000001_what.down.sql", name, err)
	}
	if m.Version == 0 {
		return fmt.Errorf("migration %s has version 0, which stands for the empty schema: start at 1", name)
	}
	text, err := fs.ReadFile(fsys, name)
	if err != nil {
		return fmt.Errorf("reading migration %s: %w", name, err)
	}
	_, known := v.down[m.Version]
	if m.Direction == source.Up {
		known = slices.ContainsFunc(v.steps, func(s Step) bool { return s.Version == m.Version })
		v.steps = append(v.steps, Step{Version: m.Version, Name: m.Identifier, SQL: string(text)})
	} else {
		v.down[m.Version] = string(text)
	}
	if known {
		return fmt.Errorf("migration %s repeats version %d: give it the next number", name, m.Version)
	}
	return nil
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
	return version == 0 || slices.ContainsFunc(v.steps, func(s Step) bool { return s.Version == version })
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
			"it was migrated by a binary from another line of development; use that one", r.version, v.latest())
	default:
		return nil
	}
}
