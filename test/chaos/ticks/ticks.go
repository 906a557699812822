// Package ticks makes schedules that are due each second, and judges whether each instant got exactly one message.
package ticks

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// sqlPrepare makes the tables with the evidence. A trigger records each insert into the inbox. So a second insert of an instant
// is visible, although a partition stores a transaction id only once. $1 is replaced by the number of schedules. The recorded
// handled_to is from the transaction that makes the schedules, so no server has changed it.
const sqlPrepare = `
CREATE TABLE chaos_ticks.tick (transaction_id text COLLATE "C");
CREATE FUNCTION chaos_ticks.record() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chaos_ticks.tick SELECT n.transaction_id FROM new_rows n WHERE n.queue LIKE 'ticks-%';
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_tick AFTER INSERT ON belfry.inbox REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION chaos_ticks.record();`

const sqlSchedules = `
WITH made AS MATERIALIZED (
    SELECT belfry.schedule('s' || i, 'ticks-' || i % 10, '{"at": "{{scheduled_at}}"}', every => '1 s', partition => 'p' || i / 10 % 10, missed => 'all')
      FROM generate_series(1, $1::int) i
)
SELECT count(*) FROM made`

const sqlBegun = `CREATE TABLE chaos_ticks.begun AS SELECT s.name, s.handled_to FROM belfry.schedule s WHERE s.queue LIKE 'ticks-%'`

// Start makes n schedules. Each of them is due each second, and a server that is late stores a message for each missed instant.
func Start(ctx context.Context, database *pgxpool.Pool, n int) error {
	err := pgx.BeginFunc(ctx, database, func(tx pgx.Tx) error {
		for _, statement := range []string{"CREATE SCHEMA chaos_ticks", sqlPrepare} {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		var made int
		if err := tx.QueryRow(ctx, sqlSchedules, n).Scan(&made); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, sqlBegun)
		return err
	})
	if err != nil {
		return fmt.Errorf("making schedules: %w", err)
	}
	return nil
}

// Count returns the number of stored messages.
func Count(ctx context.Context, database *pgxpool.Pool) (n int, err error) {
	if err := database.QueryRow(ctx, `SELECT count(*) FROM chaos_ticks.tick`).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting the messages of schedules: %w", err)
	}
	return n, nil
}

// Stop pauses all schedules, so that no more messages are stored. Messages may still be in the inbox.
func Stop(ctx context.Context, database *pgxpool.Pool) error {
	_, err := database.Exec(ctx, `WITH paused AS (
			UPDATE belfry.schedule SET paused = true, due_at = NULL, changed_at = clock_timestamp())
		SELECT belfry.wake()`)
	if err != nil {
		return fmt.Errorf("pausing the schedules: %w", err)
	}
	return nil
}

// Left returns the number of messages that are not in their partitions.
func Left(ctx context.Context, database *pgxpool.Pool) (n int, err error) {
	if err := database.QueryRow(ctx, `SELECT count(*) FROM belfry.inbox`).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting the inbox: %w", err)
	}
	return n, nil
}

// sqlJudge compares the messages with the instants. Each schedule has an instant at each full second after its creation, up to
// handled_to.
const sqlJudge = `
WITH instant AS MATERIALIZED (
    SELECT s.name || '@' || to_char(due.instant AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS id, s.queue, s.partition
      FROM belfry.schedule s
      JOIN chaos_ticks.begun b ON b.name = s.name
     CROSS JOIN LATERAL generate_series(date_trunc('second', b.handled_to) + interval '1 s', s.handled_to, interval '1 s') AS due(instant)
), stored AS MATERIALIZED (
    SELECT m.transaction_id AS id, q.name AS queue, p.name AS partition, count(*) AS times, bool_and(m.payload->>'at' = split_part(m.transaction_id, '@', 2)) AS right
      FROM belfry.message m JOIN belfry.partition p ON p.id = m.partition_id JOIN belfry.queue q ON q.id = p.queue_id
     WHERE q.name LIKE 'ticks-%' GROUP BY 1, 2, 3
), inserted AS MATERIALIZED (
    SELECT t.transaction_id AS id, count(*) AS times FROM chaos_ticks.tick t GROUP BY 1
)
SELECT 'instants' AS rule, count(*) AS times, '' AS example FROM instant
UNION ALL SELECT 'messages', coalesce(sum(s.times), 0), '' FROM stored s
UNION ALL SELECT 'forgotten: the instant has no message', count(*), coalesce(min(i.id), '')
  FROM instant i LEFT JOIN stored s USING (id, queue, partition) WHERE s.id IS NULL
UNION ALL SELECT 'unexpected: the message belongs to no instant', count(*), coalesce(min(s.id), '')
  FROM stored s LEFT JOIN instant i USING (id, queue, partition) WHERE i.id IS NULL
UNION ALL SELECT 'twice: the instant has several messages', count(*), coalesce(min(s.id), '') FROM stored s WHERE s.times > 1
UNION ALL SELECT 'inserted twice: only the transaction id kept the partition from a second message', count(*), coalesce(min(n.id), '') FROM inserted n WHERE n.times > 1
UNION ALL SELECT 'wrong: the message names another instant', count(*), coalesce(min(s.id), '') FROM stored s WHERE NOT s.right
UNION ALL SELECT 'stopped: the schedule has an error', count(*), coalesce(min(s.name || ': ' || s.error), '') FROM belfry.schedule s WHERE s.error IS NOT NULL`

// Verdict is the result of a run.
type Verdict struct {
	Instants, Messages int
	// Broken are the broken rules.
	Broken []string
}

// Judge compares the messages with the instants of the schedules. Stop must have stopped them, and Left must be 0.
func Judge(ctx context.Context, database *pgxpool.Pool) (v Verdict, err error) {
	rows, _ := database.Query(ctx, sqlJudge)
	var rule, example string
	var times int
	_, err = pgx.ForEachRow(rows, []any{&rule, &times, &example}, func() error {
		switch {
		case rule == "instants":
			v.Instants = times
		case rule == "messages":
			v.Messages = times
		case times > 0:
			v.Broken = append(v.Broken, fmt.Sprintf("%s: %d times, such as %s", rule, times, example))
		}
		return nil
	})
	if err != nil {
		return v, fmt.Errorf("judging the messages of schedules: %w", err)
	}
	return v, nil
}
