package audit

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

// The actions.
const (
	ConfigureQueue       = "queue.configure"
	DeleteQueue          = "queue.delete"
	DeleteGroup          = "group.delete"
	SetSubscriptionStart = "group.subscription"
	SeekGroup            = "group.seek"
	RedriveDeadLetters   = "dead_letters.redrive"
	PurgeDeadLetters     = "dead_letters.purge"
	DeleteMessage        = "message.delete"
	DeadLetterMessage    = "message.dead_letter"
	RetryMessage         = "message.retry"
	PauseDelivery        = "delivery.pause"
	ResumeDelivery       = "delivery.resume"
	DeleteStream         = "stream.delete"
	SetPushMaintenance   = "maintenance.push"
	SetPopMaintenance    = "maintenance.pop"
	RetryRejected        = "maintenance.retry"
	DiscardRejected      = "maintenance.discard"
	RetryInbox           = "inbox.retry"
	DiscardInbox         = "inbox.discard"
	RevokeToken          = "token.revoke"
)

// Session is the address of a change that was made in a session of the database. Its subject is the role.
const Session = "sql"

// OK is the result of a request that succeeded.
const OK = "ok"

// canceled is the result of a request whose client left before its end.
const canceled = "canceled"

var sqlWrite = sql.Query("access/audit/write")

// Target is what a request changes. A field that does not apply is empty.
type Target struct {
	Queue, Partition, Group, TransactionID string
}

// Parameters are the parameters of a request that matter, by their names on the wire.
type Parameters map[string]any

// Counts say what was changed, for example {"cursors": 3}.
type Counts map[string]int64

// Entry is the row of one request. The request and what it calls use it one after the other.
type Entry struct {
	ID queue.ID
	// Subject and TokenID are empty without authentication.
	Subject, TokenID   string
	Address, RequestID string
	Action             string
	Target             Target

	texts          Texts
	parameters     json.RawMessage
	begun, written bool
}

// Texts makes texts and JSON storable; see postgres.Pool.
type Texts interface {
	Storable(ctx context.Context, text string) string
	StorableJSON(ctx context.Context, value []byte) []byte
}

// New returns the entry of a request. Its principal is the one of ctx. Nil texts: the database has the encoding UTF8.
func New(ctx context.Context, texts Texts, action, address, requestID string) *Entry {
	e := &Entry{ID: queue.NewID(), Address: address, RequestID: requestID, Action: action, texts: texts, parameters: json.RawMessage("{}")}
	if who := identity.From(ctx); who != nil {
		e.Subject, e.TokenID = storable(who.Subject), storable(who.TokenID)
	}
	if texts != nil {
		e.Subject, e.TokenID = texts.Storable(ctx, e.Subject), texts.Storable(ctx, e.TokenID)
	}
	return e
}

// storable replaces what no database of Postgres can store in a text.
func storable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

type key struct{}

// With returns a context with an entry.
func With(ctx context.Context, e *Entry) context.Context { return context.WithValue(ctx, key{}, e) }

// From returns the entry of a context, or nil if it has none.
func From(ctx context.Context) *Entry {
	e, _ := ctx.Value(key{}).(*Entry)
	return e
}

// Begin says that the request of ctx is valid, and what it will change. A request that ends before
// Begin has no row.
func Begin(ctx context.Context, t Target, p Parameters) {
	e := From(ctx)
	if e == nil {
		return
	}
	e.Target, e.begun = t, true
	if text, err := json.Marshal(p); err == nil && len(p) > 0 { // the values of handlers always have JSON
		e.parameters = text
		if e.texts != nil {
			e.parameters = e.texts.StorableJSON(ctx, text)
		}
	}
}

// Locate names the queue and the partition of a request that named only the id of the partition.
func Locate(ctx context.Context, queueName, partition string) {
	if e := From(ctx); e != nil {
		e.Target.Queue, e.Target.Partition = queueName, partition
	}
}

// Execer is a transaction or a pool.
type Execer interface {
	Exec(ctx context.Context, statement string, args ...any) (pgconn.CommandTag, error)
}

// Write writes the row of the request of ctx in the transaction of the change. counts are the totals of
// the request, with this transaction. The caller must return its error, so that the change is rolled
// back. Without an entry it does nothing.
func Write(ctx context.Context, tx Execer, counts Counts) error {
	e := From(ctx)
	if e == nil {
		return nil
	}
	statement, args := e.Statement(OK, counts)
	_, err := tx.Exec(ctx, statement, args...)
	e.written = err == nil
	return err
}

// MarkWritten says that the caller has committed the row itself, with Statement.
func (e *Entry) MarkWritten() { e.written = true }

// Statement returns the statement that writes the row, and its arguments. nil counts keep the counts of
// a row that is written already.
func (e *Entry) Statement(result string, counts Counts) (statement string, args []any) {
	var total *string
	if counts != nil {
		text, _ := json.Marshal(counts) // numbers always have JSON
		all := string(text)
		total = &all
	}
	t := e.Target
	return sqlWrite, []any{
		[16]byte(e.ID), zeronull.Text(e.Subject), zeronull.Text(e.TokenID), e.Address, e.RequestID, e.Action,
		zeronull.Text(t.Queue), zeronull.Text(t.Partition), zeronull.Text(t.Group), zeronull.Text(t.TransactionID),
		string(e.parameters), total, result,
	}
}

// Unfinished reports whether the row must still be written or completed after the request, which ended
// with result.
func (e *Entry) Unfinished(result string) bool {
	return e.begun && result != string(queue.CodeInvalid) && (!e.written || result != OK)
}

// ResultOf returns the result of a request that ended with err.
func ResultOf(err error) string {
	var coded *queue.Error
	switch {
	case err == nil:
		return OK
	case !errors.As(err, &coded) && errors.Is(err, context.Canceled):
		return canceled
	default:
		return string(queue.CodeOf(err))
	}
}
