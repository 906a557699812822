// Package sql holds every SQL text of Belfry, in four folders:
//
//   - schema has the tables, one file each. functions has the functions, one file
//     each, in a folder for each subject. Both describe the schema as it is now.
//   - migrations has the statements that create the schema and change it. The
//     baseline, 000001, is generated from schema and functions. A released
//     migration never changes. A later migration has the whole text of a changed
//     function. test/schema proves that the migrations create the schema that
//     schema and functions describe.
//   - queries has one statement in each file, in the same folders as pkg. A
//     file starts with a comment about the statement and its parameters. Go code
//     names the file and never repeats the statement.
//
// The migrations and the queries are embedded in the binary. The package imports
// no package of Belfry and opens no database. Every package may import it.
package sql

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

// Migrations holds migrations/NNNNNN_name.up.sql and .down.sql. pkg/postgres/migrate runs
// them.
//
//go:embed migrations/*.sql
var Migrations embed.FS

//go:embed queries
var queries embed.FS

// Query returns the text of queries/NAME.sql, such as "engine/store/claim". It panics
// on an unknown name, which is a mistake in the program. Callers keep the result in
// a package variable, so the program panics at its start.
func Query(name string) string {
	text, err := queries.ReadFile("queries/" + name + ".sql")
	if err != nil {
		panic(fmt.Sprintf("sql: there is no sql/queries/%s.sql: %v", name, err))
	}
	return string(text)
}

// Names returns the names of all queries.
func Names() []string {
	var names []string
	err := fs.WalkDir(queries, "queries", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, strings.TrimSuffix(strings.TrimPrefix(path, "queries/"), ".sql"))
		}
		return err
	})
	if err != nil {
		panic(fmt.Sprintf("sql: the embedded queries cannot be listed: %v", err))
	}
	return names
}
