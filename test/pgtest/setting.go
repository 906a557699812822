package pgtest

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Set changes settings of the database of dsn for all later sessions. Other programs that share a database may set such
// values.
func Set(t testing.TB, dsn string, settings map[string]string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), setupTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatalf("connecting to a test database: %v", err)
	}
	defer func() { _ = conn.Close(ctx) }() // the settings are already stored
	database := pgx.Identifier{conn.Config().Database}.Sanitize()
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if _, err := conn.Exec(ctx, "ALTER DATABASE "+database+" SET "+name+" = "+settings[name]); err != nil {
			t.Fatalf("setting %s of a test database: %v", name, err)
		}
	}
}

// ForeignSettings returns settings that are sensible for other programs. Belfry must override each of them in its own
// sessions.
func ForeignSettings() map[string]string {
	return map[string]string{
		"default_transaction_isolation": "serializable",
		"search_path":                   "public, pg_catalog",
		"client_encoding":               "LATIN1",
		"standard_conforming_strings":   "off",
		"quote_all_identifiers":         "on",
		"transform_null_equals":         "on",
		"array_nulls":                   "off",
		"timezone":                      "'Asia/Kolkata'",
		"datestyle":                     "'German, DMY'",
		"intervalstyle":                 "sql_standard",
		"bytea_output":                  "escape",
		"extra_float_digits":            "-10",
		"lock_timeout":                  "1",
		"synchronous_commit":            "off",
		"idle_session_timeout":          "700",
		"enable_nestloop":               "off",
		"enable_indexscan":              "off",
		"enable_indexonlyscan":          "off",
	}
}
