// Package sql holds every SQL text of Belfry as files embedded in the binary:
// the migrations that make the schema, and the queries, one statement a file.
//
// It is floor 0: it imports nothing of Belfry, touches no database and may be
// imported by every package. A query's file opens with a comment that says what
// the statement does and what its parameters are; Go code names the file and
// never repeats the statement.
package sql

import (
	"embed"
	"fmt"
)

// Migrations holds migrations/NNNNNN_name.up.sql and .down.sql, the versions of
// the schema. pkg/migrate says how they are run.
//
//go:embed migrations/*.sql
var Migrations embed.FS

// Queries holds queries/room/name.sql, one statement each. The folder is the room in pkg
// that owns the statement. See Query.
//
//go:embed queries/*/*.sql
var Queries embed.FS

// Query returns the text of queries/room/name.sql; name is "room/name". It panics on an unknown name:
// the names are constants in Go code, so this is a mistake in the program, and
// callers keep the result in a package variable so that it shows at start.
func Query(name string) string {
	text, err := Queries.ReadFile("queries/" + name + ".sql")
	if err != nil {
		panic(fmt.Sprintf("sql: there is no sql/queries/%s.sql: %v", name, err))
	}
	return string(text)
}
