package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Vacuum does not truncate the hot tables, because truncation locks the table exclusively.
func TestVacuumDoesNotTruncateTables(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.push("p", numbered("m", 2000)...)
	b.exec("DELETE FROM belfry.message")
	var before, after int64
	b.scan("SELECT pg_relation_size('belfry.message')", nil, &before)
	b.exec("VACUUM belfry.message")
	b.scan("SELECT pg_relation_size('belfry.message')", nil, &after)
	require.Equal(t, before, after)

	var shortened []string
	b.scan(`SELECT coalesce(array_agg(s.oid::regclass::text), '{}')
			FROM pg_class t JOIN pg_class s ON s.oid IN (t.oid, t.reltoastrelid)
			WHERE t.relnamespace = 'belfry'::regnamespace
				AND t.relname IN ('message', 'partition', 'cursor', 'redrive', 'dead_letter', 'trace', 'trace_name', 'inbox')
				AND NOT coalesce('vacuum_truncate=false' = ANY (s.reloptions), false)`, nil, &shortened)
	require.Empty(t, shortened)
}
