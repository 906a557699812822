package queenimport

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/engine/portable"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// messagePage is the maximum number of messages that one transaction copies.
const messagePage = 5000

var (
	// ErrDiffers means that a partition of the target does not have the messages of the source.
	ErrDiffers = errors.New("the copy differs from the source")
	// errForeign means that a queue of the target has messages that do not come from the source.
	errForeign = errors.New("the queue of the target has messages that do not come from the source: delete this queue in the target first")
	// ErrNoKey means that the source has encrypted messages, and the run has no key for them.
	ErrNoKey = errors.New("the source has encrypted messages: give its key")
)

// Options are the options of a run.
type Options struct {
	// All copies every message. Otherwise a run leaves out messages that every group has consumed.
	All bool
	// DryRun writes nothing, and counts what a run would copy.
	DryRun bool
	// AllowAnyJSON also copies JSON that some clients cannot read; see pkg/engine/portable.
	AllowAnyJSON bool
	// Key decrypts the encrypted payloads of the source. It may be nil if the source has no encrypted
	// payload.
	Key *seal.Sealer
	// Progress is called after each queue. It may be nil.
	Progress func(Report)
}

// Report counts what one queue of the source contains. Copied is the number of messages that the
// run copied.
type Report struct {
	Queue                                    string
	Partitions, Groups                       int
	Messages, Encrypted, DeadLetters, Copied int64
}

// Client copies from one database to another. It is not safe for concurrent use.
type Client struct {
	from, to *pgx.Conn
	sealer   *seal.Sealer
}

// Open connects to the source and to the target. sealer has the keys of this server. It may have no key.
// Errors do not contain passwords.
func Open(ctx context.Context, from, to string, sealer *seal.Sealer) (*Client, error) {
	config, err := pgx.ParseConfig(from)
	if err != nil {
		return nil, fmt.Errorf("reading --from: %w", postgres.InvalidURL(err))
	}
	source, err := postgres.Connect(ctx, config, "--from")
	if err != nil {
		return nil, err
	}
	var exists bool
	err = source.QueryRow(ctx, `SELECT to_regclass('queen.messages') IS NOT NULL`).Scan(&exists)
	if err == nil && !exists {
		err = errors.New("the source has no table queen.messages: it is not a database of Queen MQ")
	}
	var conn *pgx.Conn
	if err == nil {
		conn, err = postgres.OpenSession(ctx, to, "belfry import")
	}
	if err != nil {
		return nil, errors.Join(err, source.Close(context.WithoutCancel(ctx)))
	}
	return &Client{source, conn, sealer}, nil
}

// Close ends both connections.
func (c *Client) Close(ctx context.Context) error {
	return errors.Join(c.from.Close(ctx), c.to.Close(ctx))
}

// Run copies all queues. After each queue it compares each partition with the source. It can take hours for
// large databases. When ctx ends, Run stops, and another Run continues. The reports are valid even if Run
// returns an error. Errors: ErrDiffers, ErrNoKey, and errors of Postgres.
func (c *Client) Run(ctx context.Context, o Options) (reports []Report, err error) {
	tx, err := c.from.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, fmt.Errorf("reading the source: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // nothing was written
	r := run{source: &source{tx, o.All}, target: &target{c.to, c.sealer}, Options: o}
	queues, err := r.source.queues(ctx)
	if err != nil {
		return nil, err
	}
	for i := range queues {
		report, err := r.queue(ctx, &queues[i])
		reports = append(reports, report)
		if o.Progress != nil {
			o.Progress(report)
		}
		if err != nil {
			return reports, err
		}
	}
	if o.DryRun {
		return reports, nil
	}
	return reports, r.queries(ctx)
}

// run is one run of Client.Run.
type run struct {
	Options
	source *source
	target *target
}

// queue copies one queue. A dry run only counts its messages.
func (r *run) queue(ctx context.Context, q *queueRow) (report Report, err error) {
	report.Queue = q.Name
	partitions, err := r.source.partitions(ctx, q.ID)
	if err != nil {
		return report, err
	}
	report.Partitions = len(partitions)
	for _, p := range partitions {
		messages, encrypted, dead, err := r.source.counts(ctx, p.ID)
		if err != nil {
			return report, err
		}
		report.Messages, report.Encrypted, report.DeadLetters = report.Messages+messages, report.Encrypted+encrypted, report.DeadLetters+dead
	}
	if report.Encrypted > 0 && !r.Key.HasKey() {
		return report, fmt.Errorf("queue %q: %w", q.Name, ErrNoKey)
	}
	if r.DryRun {
		return report, nil
	}
	id, lanes, err := r.target.open(ctx, q, partitions)
	if err != nil {
		return report, err
	}
	for i := range partitions {
		copied, err := r.messages(ctx, q, &partitions[i], lanes[partitions[i].ID])
		report.Copied += copied
		if err != nil {
			return report, err
		}
	}
	if report.Groups, err = r.follow(ctx, q, id); err != nil {
		return report, err
	}
	if err := r.target.wake(ctx, lanes); err != nil {
		return report, err
	}
	for i := range partitions {
		if err := r.compare(ctx, q, &partitions[i], lanes[partitions[i].ID]); err != nil {
			return report, err
		}
	}
	return report, nil
}

// messages copies the messages of a partition that the target does not have yet.
func (r *run) messages(ctx context.Context, q *queueRow, p *partitionRow, l *lane) (copied int64, err error) {
	for {
		page, err := r.source.messages(ctx, p.ID, l.lastAt, l.lastID, messagePage)
		if err != nil || len(page) == 0 {
			return copied, err
		}
		if err := r.opened(q, p, page); err != nil {
			return copied, err
		}
		if err := r.checkPayloads(q, p, page); err != nil {
			return copied, err
		}
		if err := r.target.store(ctx, q, p, l, page); err != nil {
			return copied, err
		}
		copied += int64(len(page))
		if len(page) < messagePage {
			return copied, nil
		}
	}
}

// checkPayloads returns an error for the first message that some client cannot read. After the error, no message of
// the page is stored. The operator changes the message in the source, or sets AllowAnyJSON, and runs the import
// again.
func (r *run) checkPayloads(q *queueRow, p *partitionRow, messages []messageRow) error {
	for i := range messages {
		if flaw := r.flaw("payload", messages[i].Payload); flaw != nil {
			return fmt.Errorf("queue %q, partition %q, transaction id %q: %w", q.Name, p.Name, messages[i].TransactionID, flaw)
		}
	}
	return nil
}

// flaw returns an error if some client cannot read the JSON in text.
func (r *run) flaw(root, text string) error {
	rules := portable.Rules{Any: r.AllowAnyJSON}
	if flaw := rules.Find(root, []byte(text)); flaw != nil {
		return flaw
	}
	return nil
}

// opened decrypts the encrypted payloads of messages of the source.
func (r *run) opened(q *queueRow, p *partitionRow, messages []messageRow) error {
	for i := range messages {
		m := &messages[i]
		if !m.Encrypted {
			continue
		}
		payload, err := r.Key.Open([]byte(m.Payload), seal.Message{})
		if err != nil {
			return fmt.Errorf("queue %q, partition %q, transaction id %q: %w", q.Name, p.Name, m.TransactionID, err)
		}
		m.Payload = string(payload)
	}
	return nil
}

func (r *run) follow(ctx context.Context, q *queueRow, id int64) (groups int, err error) {
	places, err := r.source.places(ctx, q.ID)
	if err != nil {
		return 0, err
	}
	subscriptions, err := r.source.subscriptions(ctx, q.ID)
	if err != nil {
		return 0, err
	}
	dead, err := r.source.deadLetters(ctx, q.ID)
	if err != nil {
		return 0, err
	}
	groups, err = r.target.follow(ctx, id, places, subscriptions, dead)
	if err != nil {
		return 0, fmt.Errorf("queue %q: %w", q.Name, err)
	}
	return groups, nil
}

// compare compares the messages that a run must copy with the messages of the target: number, order
// and content.
func (r *run) compare(ctx context.Context, q *queueRow, p *partitionRow, l *lane) error {
	want, have := sha256.New(), sha256.New()
	var wanted, stored int64
	var at time.Time
	var id queue.ID
	for {
		page, err := r.source.messages(ctx, p.ID, at, id, messagePage)
		if err == nil {
			err = r.opened(q, p, page)
		}
		if err != nil {
			return err
		}
		for i := range page {
			page[i].addTo(want)
		}
		wanted += int64(len(page))
		if len(page) < messagePage {
			break
		}
		at, id = page[len(page)-1].CreatedAt, page[len(page)-1].ID
	}
	for {
		page, err := r.target.messages(ctx, q, p, l, stored)
		if err != nil {
			return fmt.Errorf("reading queue %q, partition %q: %w", q.Name, p.Name, err)
		}
		for i := range page {
			page[i].addTo(have)
		}
		stored += int64(len(page))
		if len(page) < messagePage {
			break
		}
	}
	if wanted != stored || string(want.Sum(nil)) != string(have.Sum(nil)) {
		return fmt.Errorf("%w: queue %q, partition %q: the messages differ in number or content (%d in the source, %d in the copy)",
			ErrDiffers, q.Name, p.Name, wanted, stored)
	}
	return nil
}

// addTo adds to a checksum everything that a copy keeps of a message.
func (m *messageRow) addTo(h hash.Hash) {
	var size [8]byte
	for _, text := range []string{m.ID.String(), m.TransactionID, m.TraceID.String(), m.Payload, m.ProducerSub, m.CreatedAt.UTC().Format(time.RFC3339Nano)} {
		binary.BigEndian.PutUint64(size[:], uint64(len(text)))
		h.Write(size[:]) // a hash never returns an error
		h.Write([]byte(text))
	}
}

// queries copies the queries of streams with their state.
func (r *run) queries(ctx context.Context) error {
	queries, err := r.source.queries(ctx)
	if err != nil {
		return err
	}
	for i := range queries {
		state, err := r.source.state(ctx, queries[i].ID)
		if err != nil {
			return err
		}
		for _, s := range state {
			if err := r.flaw("value", s.Value); err != nil {
				return fmt.Errorf("query %q, key %q: %w", queries[i].Name, s.Key, err)
			}
		}
		if err := r.target.storeQuery(ctx, &queries[i], state); err != nil {
			return err
		}
	}
	return nil
}
