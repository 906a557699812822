package workload

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// sqlTable is a table that is attached to the first queue. The attachment is strict, so every committed row is
// pushed.
const sqlTable = `
CREATE SCHEMA IF NOT EXISTS chaos;
CREATE TABLE chaos.task (
    id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    part   text NOT NULL,
    mark   text NOT NULL,
    poison boolean NOT NULL
);`

const sqlAttachTable = `SELECT belfry.attach('chaos.task', $1, events => '{insert}', key => '{part}', columns => '{mark,poison}', strict => true)`

// attachTable creates the table and attaches it.
func attachTable(ctx context.Context, database *pgxpool.Pool) error {
	if _, err := database.Exec(ctx, sqlTable); err != nil {
		return fmt.Errorf("creating the attached table: %w", err)
	}
	if _, err := database.Exec(ctx, sqlAttachTable, queueName(0)); err != nil {
		return fmt.Errorf("attaching a table: %w", err)
	}
	return nil
}

// UnmarshalJSON reads a payload of the workload. A payload of the attached table has the data in the member row.
func (p *payload) UnmarshalJSON(text []byte) error {
	type plain payload
	var read struct {
		plain
		Row *plain `json:"row"`
	}
	if err := json.Unmarshal(text, &read); err != nil {
		return fmt.Errorf("reading a payload: %w", err)
	}
	*p = payload(read.plain)
	if read.Row != nil {
		*p = payload(*read.Row)
	}
	return nil
}

// produceRows pushes by inserting rows into the attached table until stop ends. The client gives the messages no
// transaction ids, so it never repeats a push.
func (c *client) produceRows(ctx, stop context.Context, database *pgxpool.Pool) {
	for n := 0; pause(stop, c.upTo(shortestPush, longestPush)); n++ {
		items := make([]pushItem, 1+c.choose.IntN(mostItems))
		for i := range items {
			items[i] = pushItem{
				Queue: queueName(0), Partition: c.partition(), Payload: payload{fmt.Sprintf("%s.%d.%d", c.name, n, i), c.chance(poisoned)},
			}
		}
		c.writeRows(ctx, database, items)
	}
}

// writeRows inserts items as rows in one transaction, with one statement or one statement per row. It records a push.
func (c *client) writeRows(ctx context.Context, database *pgxpool.Pool, items []pushItem) history.Operation {
	ctx, cancel := context.WithTimeout(ctx, callTimeout+longestOpen)
	defer cancel()
	o := history.Operation{Client: c.name, Kind: history.Push, Queue: items[0].Queue, Inbox: true}
	for _, item := range items {
		o.Items = append(o.Items, item.item())
	}
	o = c.recorder.Begin(o)
	c.clients.expect(o.ID, items)
	o, err := c.inTransaction(ctx, database, o, func(tx pgx.Tx) error { return c.insertRows(ctx, tx, items) })
	if err != nil {
		c.judgeSQL(err)
	}
	return o
}

func (c *client) insertRows(ctx context.Context, tx pgx.Tx, items []pushItem) error {
	var partitions, marks []string
	var poison []bool
	for _, item := range items {
		partitions, marks, poison = append(partitions, item.Partition), append(marks, item.Payload.Mark), append(poison, item.Payload.Poison)
	}
	at := 1
	if c.chance(50) {
		at = len(items)
	}
	for from := 0; from < len(items); from += at {
		_, err := tx.Exec(ctx, `INSERT INTO chaos.task (part, mark, poison)
			SELECT n.part, n.mark, n.poison FROM unnest($1::text[], $2::text[], $3::boolean[]) WITH ORDINALITY AS n(part, mark, poison, nth)
			 ORDER BY n.nth`, partitions[from:from+at], marks[from:from+at], poison[from:from+at])
		if err != nil {
			return err
		}
	}
	return nil
}
