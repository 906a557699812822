package postgres

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// RetryAfter is how long a client should wait while the database is unavailable.
const RetryAfter = time.Second

// SQLSTATEs that callers compare with SQLState.
const (
	// PartitionGone: a push used a cached partition that was deleted.
	PartitionGone = "BF001"
	// InboxRowTaken: a sequencer deletes an inbox row that another sequencer has deleted.
	InboxRowTaken = "BF002"
	// LockTimeout: a wait for a lock exceeded the lock_timeout of the transaction.
	LockTimeout = "55P03"
	// InsufficientPrivilege: the role lacks a privilege.
	InsufficientPrivilege = "42501"
)

// sqlstateTooMany is the SQLSTATE of a server, role or database without a free connection.
const sqlstateTooMany = "53300"

// sqlstateNoConnections is the SQLSTATE of a database with ALLOW_CONNECTIONS false.
const sqlstateNoConnections = "55000"

// lostTexts are parts of the texts of errors that pgx does not export.
var lostTexts = []string{
	// pgxpool has taken connections that all turned out to be lost, for example while a pooler restarts.
	"pgxpool: too many failed attempts acquiring connection",
	// The answer breaks the protocol of Postgres. If Postgres dies, PgBouncer sends its own error after a part of a message.
	" body is invalid ", " body must have length of ", "invalid message length: ", "unknown message type: ",
}

// SQLState returns the SQLSTATE in the chain of err, or "".
func SQLState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// Wrap returns err with a code. It returns nil if err is nil, and err itself if it already has a code. The code depends on the
// cause and on the SQLSTATE:
//
//   - no connection, for any reason: CodeUnavailable
//   - 22, 23, 54001: CodeInvalid. The database cannot store the values.
//   - 08, 28, 3D, 40, 53, 57, 58, 55P03, 25006, BF001, 26000, 42P05, a lost connection,
//     a deadline: CodeUnavailable. The client may send the same request again.
//   - 3F000, 42P01, 42883: CodeUnavailable. The tables or functions do not exist, for
//     example during a restore.
//   - every other error: CodeInternal
func Wrap(err error) error {
	if err == nil {
		return nil
	}
	var coded *queue.Error
	if errors.As(err, &coded) {
		return err
	}
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		return unavailable(err)
	}
	if state := SQLState(err); state != "" {
		return wrapState(err, state)
	}
	if settings := (*settingsError)(nil); ConnectionLost(err) || errors.As(err, &settings) {
		return unavailable(err)
	}
	return &queue.Error{Code: queue.CodeInternal, Message: "internal error", Err: err}
}

func wrapState(err error, state string) error {
	switch {
	case hasClass(state, "22", "23"), state == "54001":
		var pg *pgconn.PgError
		errors.As(err, &pg)
		return &queue.Error{Code: queue.CodeInvalid, Message: "the database refused a value: " + pg.Message, Err: err}
	case hasClass(state, "08", "28", "3D", "40", "53", "57", "58"),
		state == LockTimeout, state == sqlstateReadOnly, state == PartitionGone, isPreparedElsewhere(state):
		return unavailable(err)
	case state == "3F000", state == "42P01", state == "42883":
		return &queue.Error{
			Code: queue.CodeUnavailable, RetryAfter: RetryAfter, Err: err,
			Message: "the tables or functions of Belfry do not exist in the database: send the request again once it has been restored, or see `belfry migrate status`",
		}
	default:
		return &queue.Error{Code: queue.CodeInternal, Message: "internal error", Err: err}
	}
}

// Unreadable reports whether Postgres could not read or write a row. Use it only for statements that send no value of a client.
// It covers these cases: the row is corrupt (class XX), or a value of the row is invalid (22) or exceeds a limit (54). It also
// covers a file of the database that is missing or cannot be read (58P01, 58030). If the xmin or xmax of a row is corrupt,
// Postgres looks for the status of that transaction in a file that does not exist, and reports 58P01.
func Unreadable(err error) bool {
	state := SQLState(err)
	return hasClass(state, "XX", "22", "54") || state == "58P01" || state == "58030"
}

// hasClass reports whether a SQLSTATE is of one of the classes.
func hasClass(state string, classes ...string) bool {
	return slices.ContainsFunc(classes, func(class string) bool { return strings.HasPrefix(state, class) })
}

// reasons say why the database is unavailable, for the SQLSTATEs whose cause an operator can remove.
var reasons = map[string]string{
	sqlstateReadOnly:      " (it is read only)",
	"28000":               " (it refuses the login of this server)",
	InsufficientPrivilege: " (it refuses the login of this server)", // 42501 at the connection: the role lacks CONNECT
	sqlstateNoConnections: " (it accepts no connections)",
	"28P01":               " (it refuses the password of this server)",
	"3D000":               " (it does not exist)",
	"53100":               " (its disk or its shared memory is full)",
	"53200":               " (it has no memory left for this)",
	sqlstateTooMany:       " (it takes no more connections)",
}

func unavailable(err error) error {
	state := SQLState(err)
	return &queue.Error{
		Timeout:    state == "57014",
		Code:       queue.CodeUnavailable,
		Message:    "the database is not available" + reasons[state] + "; send the request again",
		RetryAfter: RetryAfter,
		Err:        err,
	}
}

// ConnectionLost reports whether err means that the connection failed, was lost or exceeded its time. In these cases the outcome
// of the statements sent over the connection is unknown.
func ConnectionLost(err error) bool {
	if err == nil || errors.Is(err, pgx.ErrNoRows) {
		return false
	}
	if state := SQLState(err); state != "" {
		return strings.HasPrefix(state, "08") || strings.HasPrefix(state, "57P")
	}
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, puddle.ErrClosedPool) || pgconn.SafeToRetry(err) ||
		slices.ContainsFunc(lostTexts, func(text string) bool { return strings.Contains(err.Error(), text) })
}

// Retryable reports whether the same statements may succeed if they are sent again: the
// connection failed or was lost, or the database aborted the transaction because of a
// conflict. A canceled context and a Problem are not retryable.
func Retryable(err error) bool {
	var problem *Problem
	if errors.Is(err, context.Canceled) || errors.As(err, &problem) {
		return false
	}
	state := SQLState(err)
	return strings.HasPrefix(state, "40") || ConnectionLost(err)
}

// IsNoRows reports whether a query returned no row although it should return one.
func IsNoRows(err error) bool { return errors.Is(err, pgx.ErrNoRows) }
