package audit

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
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
	StopRedrive          = "dead_letters.stop"
	PurgeDeadLetters     = "dead_letters.purge"
	DeleteMessage        = "message.delete"
	DeadLetterMessage    = "message.dead_letter"
	RetryMessage         = "message.retry"
	ResendMessage        = "message.resend"
	MoveMessage          = "message.move"
	PauseDelivery        = "delivery.pause"
	UnblockDelivery      = "delivery.unblock"
	ResumeDelivery       = "delivery.resume"
	SetSchedule          = "schedule.set"
	DeleteSchedule       = "schedule.delete"
	PauseSchedule        = "schedule.pause"
	ResumeSchedule       = "schedule.resume"
	RunSchedule          = "schedule.run"
	SetLimits            = "limits.set"
	RemoveLimits         = "limits.remove"
	DeleteStream         = "stream.delete"
	SetPushMaintenance   = "maintenance.push"
	SetPopMaintenance    = "maintenance.pop"
	RetryRejected        = "maintenance.retry"
	DiscardRejected      = "maintenance.discard"
	RetryInbox           = "inbox.retry"
	DiscardInbox         = "inbox.discard"
	RevokeToken          = "token.revoke"
	CreateToken          = "token.create"
	GiveGrant            = "grant.give"
	RevokeGrant          = "grant.revoke"
)

// Session is the address of a change that was made in a session of the database. The subject of the change is the role.
const Session = "sql"

// MaxUndoable is the largest number of cursors that a seek can move and still be undone. The old positions of a seek that
// moves more cursors are not kept.
const MaxUndoable = 100_000

// OK is the result of a request that succeeded.
const OK = "ok"

// canceled is the result of a request whose client disconnected before the end of the request.
const canceled = "canceled"

var sqlWrite = sql.Query("access/audit/write")

// Target names the object that a request changes. A field that does not apply is empty.
type Target struct {
	Queue, Partition, Group, TransactionID string
}

// Parameters are the relevant parameters of a request, by their names in the request.
type Parameters map[string]any

// Counts has the number of changed objects of each kind, for example {"cursors": 3}.
type Counts map[string]int64

// Entry is the row of one request. It is not safe for concurrent use.
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

// Texts replaces the characters that the encoding of the database does not have; see postgres.Pool.
type Texts interface {
	Storable(ctx context.Context, text string) string
	StorableJSON(ctx context.Context, value []byte) []byte
}

// New returns the entry of a request. ctx has the principal. texts is nil if the database has the encoding UTF8.
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

// storable replaces NUL and invalid UTF-8, which Postgres cannot store in a text.
func storable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

type key struct{}

// With returns a copy of ctx that has an entry.
func With(ctx context.Context, e *Entry) context.Context { return context.WithValue(ctx, key{}, e) }

// From returns the entry of a context, or nil if it has none.
func From(ctx context.Context) *Entry {
	e, _ := ctx.Value(key{}).(*Entry)
	return e
}

// Begin records that the request of ctx is valid, what it will change, and its parameters. If a request
// ends before Begin, it gets no row.
func Begin(ctx context.Context, t Target, p Parameters) {
	e := From(ctx)
	if e == nil {
		return
	}
	e.Target, e.begun = t, true
	if text, err := json.Marshal(p); err == nil && len(p) > 0 { // handlers pass only values that can be encoded
		e.parameters = text
		if e.texts != nil {
			e.parameters = e.texts.StorableJSON(ctx, text)
		}
	}
}

// Add adds parameters to those of Begin. It is for values that are known only after the change.
func Add(ctx context.Context, p Parameters) {
	e := From(ctx)
	if e == nil {
		return
	}
	all := Parameters{}
	_ = json.Unmarshal(e.parameters, &all) // an object, from Begin
	maps.Copy(all, p)
	Begin(ctx, e.Target, all)
}

// Rename sets the action of the request of ctx. It is for a request whose action depends on what it finds.
func Rename(ctx context.Context, action string) {
	if e := From(ctx); e != nil {
		e.Action = action
	}
}

// Locate sets the queue and the partition of the target. It is for requests that have only the id of the partition.
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
// the request, including this transaction. If Write returns an error, the caller must roll back the
// change. Without an entry in ctx, Write does nothing.
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

// MarkWritten records that the caller has committed the row itself, with Statement.
func (e *Entry) MarkWritten() { e.written = true }

// Statement returns the statement that writes the row, and its arguments. If counts is nil, a row that
// exists keeps its counts.
func (e *Entry) Statement(result string, counts Counts) (statement string, args []any) {
	var total *string
	if counts != nil {
		text, _ := json.Marshal(counts) // a map of numbers can always be encoded
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
