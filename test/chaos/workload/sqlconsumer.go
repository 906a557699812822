package workload

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// These constants are percentages of the deliveries of consumers by SQL.
const (
	apart   = 40 // the ack is in another transaction than the pop
	undone  = 10 // the transaction is rolled back
	dropped = 3  // the connection is closed
	late    = 5  // the ack comes after the end of the lease
)

const (
	// awaitGroup has only consumers in SQL. They wait for a wake after each empty pop.
	awaitGroup     = "told"
	awaitGroupSize = 3
	// asking is the percentage of empty pops after which consumers of other groups wait for a wake. Otherwise they
	// soon pop again.
	asking = 50
	// askPatience is the maximum wait of a consumer for the wake. It is longer than the checker allows.
	askPatience = 3 * time.Second
)

// leaseLost is the SQLSTATE of an ack whose lease has ended.
const leaseLost = "BF010"

// sqlBatch is the maximum batch of a pop by SQL.
const sqlBatch = 20

// consumeSQL pops and acknowledges by SQL for a group until stop ends.
func (c *client) consumeSQL(ctx, stop context.Context, database *pgxpool.Pool, group string) {
	for pause(stop, c.upTo(0, idlePause)) {
		// The history records failures as pops of unknown outcome and refused acks, so the error is ignored.
		_ = c.workSQL(ctx, stop, database, group)
	}
}

// workSQL pops once. Then it handles the delivery, or waits for a wake.
func (c *client) workSQL(ctx, stop context.Context, database *pgxpool.Pool, group string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout+LeaseTime)
	defer cancel()
	conn, err := database.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release() // also closes the connection if its transaction is open
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	d, err := c.popSQL(ctx, tx, group)
	switch {
	case err == nil && len(d.Messages) == 0 && (group == awaitGroup || c.chance(asking)):
		return c.awaitSQL(ctx, stop, conn.Conn(), tx, d)
	case err != nil, len(d.Messages) == 0, c.chance(undone):
		return errors.Join(err, tx.Rollback(ctx))
	case c.chance(dropped):
		return conn.Conn().Close(ctx)
	case !c.chance(apart):
		err := c.ackSQL(ctx, tx, d)
		if leaseEnded(err) && time.Since(began) < LeaseTime {
			c.clients.complain("%s: a lease ended after %s although its own transaction held the cursor: %v", c.name, time.Since(began), err)
		}
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	if c.chance(late) {
		pause(ctx, LeaseTime+overdue)
	}
	if tx, err = conn.Begin(ctx); err != nil {
		return err
	}
	return c.ackSQL(ctx, tx, d)
}

// awaitSQL requests a wake after an empty pop, waits for the wake, and records the wait. It closes the connection,
// because the connection listens for the wake.
func (c *client) awaitSQL(ctx, stop context.Context, conn *pgx.Conn, tx pgx.Tx, d delivery) error {
	var partition *string
	if d.partition != "" {
		partition = &d.partition
	}
	if _, err := tx.Exec(ctx, `SELECT belfry.await($1, $2, $3)`, d.queue, groupName(d.group), partition); err != nil {
		c.judgeSQL(err)
		return errors.Join(err, tx.Rollback(ctx))
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	o := c.recorder.Begin(history.Operation{
		Client: c.name, Kind: history.Await, Queue: d.queue, Partition: d.partition, Group: groupName(d.group), Wait: askPatience, Outcome: history.Unknown,
	})
	patience, cancel := context.WithTimeout(stop, askPatience)
	defer cancel()
	_, err := conn.WaitForNotification(patience)
	switch {
	case err == nil:
		o.Outcome = history.Done
	case patience.Err() != nil:
		err = nil // the consumer pops again without the wake
	default:
		o.Error = err.Error()
	}
	c.recorder.End(o)
	return err
}

func leaseEnded(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == leaseLost
}

// popSQL pops in a transaction and records the pop, even if the transaction is rolled back later. A rollback makes
// the messages ready again.
func (c *client) popSQL(ctx context.Context, tx pgx.Tx, group string) (delivery, error) {
	d := delivery{popRequest: popRequest{queue: c.queue(), group: group, batch: 1 + c.choose.IntN(sqlBatch), partitions: 1}}
	var partition *string
	if c.chance(20) {
		d.partition = c.partition()
		partition = &d.partition
	}
	o := c.recorder.Begin(history.Operation{
		Client: c.name, Kind: history.Pop, Queue: d.queue, Partition: d.partition, Group: groupName(group), Outcome: history.Unknown,
	})
	rows, err := tx.Query(ctx, `SELECT p.lease::text, p.partition_name, p.message_id::text, p.transaction_id, p.payload
		FROM belfry.pop($1, $2, $3, $4) AS p`, d.queue, groupName(group), d.batch, partition)
	if err == nil {
		var m message
		_, err = pgx.ForEachRow(rows, []any{&d.LeaseID, &m.Partition, &m.ID, &m.TransactionID, &m.Data}, func() error {
			d.Messages = append(d.Messages, m)
			m = message{}
			return nil
		})
	}
	if err != nil {
		o.Error = err.Error()
		c.judgeSQL(err)
		c.recorder.End(o)
		return delivery{popRequest: d.popRequest}, err
	}
	o.Outcome, o.LeaseID = history.Done, d.LeaseID
	for _, m := range d.Messages {
		o.Items = append(o.Items, history.Item{Partition: m.Partition, TransactionID: m.TransactionID, MessageID: m.ID})
		c.clients.learn(m.Data.Mark, m.TransactionID)
	}
	c.recorder.End(o)
	if len(d.Messages) > 0 {
		c.clients.noteDelivery()
	}
	return d, nil
}

// ackSQL completes the messages before the first poison message and fails this message. It ends the transaction.
func (c *client) ackSQL(ctx context.Context, tx pgx.Tx, d delivery) error {
	o := history.Operation{Client: c.name, Kind: history.Ack, Queue: d.queue, Group: groupName(d.group), LeaseID: d.LeaseID}
	completed, failed := o, o
	var ids []string
	for _, v := range d.verdicts("completed") {
		item := history.Item{Partition: v.Partition, TransactionID: v.TransactionID, MessageID: v.ID, Status: v.status}
		if v.status == "failed" {
			failed.Items = append(failed.Items, item)
			break
		}
		completed.Items, ids = append(completed.Items, item), append(ids, v.ID)
	}
	if len(completed.Items) > 0 {
		completed = c.recorder.Begin(completed)
	}
	if len(failed.Items) > 0 {
		failed = c.recorder.Begin(failed)
	}
	var err error
	said := int64(len(ids))
	if len(ids) > 0 {
		err = tx.QueryRow(ctx, `SELECT belfry.ack($1::text::uuid, $2::text[]::uuid[])`, d.LeaseID, ids).Scan(&said)
	}
	if err == nil && len(failed.Items) > 0 {
		_, err = tx.Exec(ctx, `SELECT belfry.ack($1::text::uuid, ARRAY[$2::text::uuid], 'failed', 'it did not work')`,
			d.LeaseID, failed.Items[0].MessageID)
	}
	outcome := history.Refused // until COMMIT is sent
	if err != nil {
		c.judgeSQL(err)
		_ = tx.Rollback(ctx)
	} else if err = tx.Commit(ctx); err != nil {
		outcome = history.Unknown
	} else {
		outcome = history.Done
	}
	completed.Outcome, failed.Outcome = outcome, outcome
	if outcome == history.Done {
		if said == int64(len(ids)) {
			for i := range completed.Items {
				completed.Items[i].Accepted = true
			}
		} else {
			completed.Outcome = history.Unknown // another client acknowledged some of the messages
		}
		failed.Outcome = history.Unknown // the answer does not say whether this was the last attempt
	}
	if err != nil {
		completed.Error, failed.Error = err.Error(), err.Error()
	}
	c.recorder.End(completed)
	c.recorder.End(failed)
	return err
}

// judgeSQL complains about errors that no fault can cause.
func (c *client) judgeSQL(err error) {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return
	}
	for _, class := range []string{"22", "23", "42", "P0", "XX"} {
		if strings.HasPrefix(refused.Code, class) {
			c.clients.complain("%s: %s", c.name, fmt.Sprintf("%s %s", refused.Code, refused.Message))
		}
	}
}
