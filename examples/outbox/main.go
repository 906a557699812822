// Command outbox is a shop that sells bells. It places orders and writes invoices. One transaction stores an order
// and its message, so both exist or neither exists. examples/README.md says how to run the command.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/client"
)

// order is a row of the table and the payload of its message.
type order struct {
	ID       int64  `json:"id"`
	Customer string `json:"customer"`
}

// tables creates the tables of the shop, and sets the stock to two bells.
const tables = `
CREATE TABLE IF NOT EXISTS orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer text NOT NULL);
CREATE TABLE IF NOT EXISTS invoice (order_id bigint PRIMARY KEY, customer text NOT NULL);
CREATE TABLE IF NOT EXISTS stock (item text PRIMARY KEY, pieces integer NOT NULL CHECK (pieces >= 0));
INSERT INTO stock VALUES ('bell', 2) ON CONFLICT (item) DO UPDATE SET pieces = 2`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Getenv("DATABASE_URL"), cmp.Or(os.Getenv("BELFRY_URL"), "http://localhost:6632"))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "outbox:", err)
		os.Exit(1)
	}
}

// run places three orders although the stock has two bells, then writes invoices until ctx ends.
func run(ctx context.Context, database, server string) error {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, tables); err != nil {
		return err
	}
	for _, customer := range []string{"ada", "bob", "eve"} {
		if err := place(ctx, conn, customer); err != nil {
			fmt.Printf("no order and no message for %s: %v\n", customer, err)
		}
	}
	return bill(ctx, conn, server)
}

// place stores an order, pushes its message, and takes a bell from the stock. If one step fails, Postgres stores
// nothing. The transaction id of the message contains the order id, so a repeated push stores nothing.
func place(ctx context.Context, conn *pgx.Conn, customer string) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		o := order{Customer: customer}
		if err := tx.QueryRow(ctx, `INSERT INTO orders (customer) VALUES ($1) RETURNING id`, customer).Scan(&o.ID); err != nil {
			return err
		}
		push := `SELECT belfry.push('orders', $1::json, partition => $2, transaction_id => $3)`
		if _, err := tx.Exec(ctx, push, o, customer, fmt.Sprintf("order-%d", o.ID)); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `UPDATE stock SET pieces = pieces - 1 WHERE item = 'bell'`)
		return err
	})
}

// bill writes an invoice for each order. A message can be delivered twice, for example after a crash. The second
// invoice of an order changes nothing. When ctx ends, bill finishes and acknowledges the current invoice.
func bill(ctx context.Context, conn *pgx.Conn, server string) error {
	c, err := client.New(client.Config{URLs: []string{server}})
	if err != nil {
		return err
	}
	defer c.Close()
	return client.Consume(ctx, c, client.ConsumeOptions{Queue: "orders", Group: "billing"},
		func(ctx context.Context, m *client.Message[order]) error {
			insert := `INSERT INTO invoice (order_id, customer) VALUES ($1, $2) ON CONFLICT DO NOTHING`
			if _, err := conn.Exec(ctx, insert, m.Data.ID, m.Data.Customer); err != nil {
				return err // the message is delivered again
			}
			fmt.Printf("invoice of order %d for %s\n", m.Data.ID, m.Data.Customer)
			return nil
		})
}
