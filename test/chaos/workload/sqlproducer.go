package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// These constants are percentages of the transactions of producers by SQL.
const (
	rolledBack = 10
	leftOpen   = 5
	silent     = 10 // pushes without a notification
)

// longestOpen is the maximum time that a transaction stays open.
const longestOpen = 2 * time.Second

// produceSQL pushes by SQL until stop ends. It repeats transactions of unknown outcome.
func (c *client) produceSQL(ctx, stop context.Context, database *pgxpool.Pool) {
	for n := 0; pause(stop, c.upTo(shortestPush, longestPush)); n++ {
		items := make([]pushItem, 1+c.choose.IntN(mostItems))
		where := c.queue()
		for i := range items {
			mark := fmt.Sprintf("%s.%d.%d", c.name, n, i)
			items[i] = pushItem{Queue: where, Partition: c.partition(), TransactionID: mark, Payload: payload{mark, c.chance(poisoned)}}
		}
		o := c.pushSQL(ctx, database, items)
		for again := 0; again < mostRepeats && o.Outcome == history.Unknown; again++ {
			if !pause(stop, c.upTo(shortestPush, longestPush)) {
				return
			}
			o = c.pushSQL(ctx, database, items)
		}
	}
}

// pushSQL pushes items in one transaction and records the push.
func (c *client) pushSQL(ctx context.Context, database *pgxpool.Pool, items []pushItem) history.Operation {
	ctx, cancel := context.WithTimeout(ctx, callTimeout+longestOpen)
	defer cancel()
	o := history.Operation{Client: c.name, Kind: history.Push, Queue: items[0].Queue, Inbox: true}
	for _, item := range items {
		o.Items = append(o.Items, history.Item{Partition: item.Partition, TransactionID: item.TransactionID})
	}
	o = c.recorder.Begin(o)
	o, _ = c.inTransaction(ctx, database, o, func(tx pgx.Tx) error { return c.insert(ctx, tx, items) })
	return o
}

// inTransaction runs write in a transaction. It sometimes rolls the transaction back. It sets the outcome of o, ends
// o, and returns the error.
func (c *client) inTransaction(ctx context.Context, database *pgxpool.Pool, o history.Operation, write func(pgx.Tx) error) (history.Operation, error) {
	o.Outcome = history.Refused // until COMMIT is sent
	tx, err := database.Begin(ctx)
	if err == nil {
		if err = write(tx); err != nil || c.chance(rolledBack) {
			_ = tx.Rollback(ctx) // even if the rollback fails, the transaction cannot commit
		} else if err = tx.Commit(ctx); err != nil {
			o.Outcome = history.Unknown
		} else {
			o.Outcome = history.Done
		}
	}
	if err != nil {
		o.Error = err.Error()
	}
	return c.recorder.End(o), err
}

// insert pushes items in one of several ways.
func (c *client) insert(ctx context.Context, tx pgx.Tx, items []pushItem) error {
	if c.chance(silent) {
		if _, err := tx.Exec(ctx, "SET LOCAL belfry.notify = off"); err != nil {
			return err
		}
	}
	if c.chance(leftOpen) {
		defer pause(ctx, c.upTo(0, longestOpen))
	}
	if c.chance(30) {
		return c.insertMany(ctx, tx, items)
	}
	for _, item := range items {
		if c.chance(10) {
			if err := c.undo(ctx, tx, item); err != nil {
				return err
			}
		}
		statement := `INSERT INTO belfry.inbox (queue, partition, payload, transaction_id) VALUES ($1, $2, $3::text::json, $4)`
		if c.chance(50) {
			statement = `SELECT belfry.push($1, $3::text, $2, $4)`
		}
		if _, err := tx.Exec(ctx, statement, item.Queue, item.Partition, encode(item.Payload), item.TransactionID); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) insertMany(ctx context.Context, tx pgx.Tx, items []pushItem) error {
	var payloads []json.RawMessage
	var partitions, ids []string
	for _, item := range items {
		payloads = append(payloads, json.RawMessage(encode(item.Payload)))
		partitions, ids = append(partitions, item.Partition), append(ids, item.TransactionID)
	}
	_, err := tx.Exec(ctx, `SELECT belfry.push_many($1, $2, $3, $4)`, items[0].Queue, payloads, partitions, ids)
	return err
}

// undo pushes a message and rolls back to a savepoint, so that the message is not stored.
func (c *client) undo(ctx context.Context, tx pgx.Tx, item pushItem) error {
	inner, err := tx.Begin(ctx)
	if err != nil {
		return err
	}
	if _, err := inner.Exec(ctx, `SELECT belfry.push($1, '"undone"', $2, $3)`, item.Queue, item.Partition, item.TransactionID+".undone"); err != nil {
		return err
	}
	return inner.Rollback(ctx)
}
