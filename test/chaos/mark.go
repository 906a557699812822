package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// findMark returns an error if a row of any table of Belfry contains mark. Intruders are clients
// whose requests the servers must refuse, and mark is a text in all their requests. Payloads are JSON, so the text form of a
// row contains them.
func findMark(ctx context.Context, database *pgxpool.Pool, mark string) error {
	rows, _ := database.Query(ctx, `SELECT c.oid::regclass::text FROM pg_class c WHERE c.relnamespace = 'belfry'::regnamespace AND c.relkind IN ('r', 'p')`)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("listing the tables: %w", err)
	}
	for _, table := range tables {
		var found int64
		if err := database.QueryRow(ctx, `SELECT count(*) FROM `+table+` t WHERE strpos(t::text, $1) > 0`, mark).Scan(&found); err != nil {
			return fmt.Errorf("looking for the mark of intruders in %s: %w", table, err)
		}
		if found > 0 {
			return fmt.Errorf("%d rows of %s contain the mark of the intruders, although the servers refused all their requests", found, table)
		}
	}
	return nil
}
