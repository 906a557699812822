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

// RetryAfter is what a caller is told to wait when the database is away.
const RetryAfter = time.Second

// PartitionGone is the SQLSTATE a push raises when a partition it has cached
// was deleted.
const PartitionGone = "BF001"

// InboxRowTaken is the SQLSTATE of a transaction that takes rows from the inbox of
// which somebody else has had one.
const InboxRowTaken = "BF002"

// LockTimeout is the SQLSTATE of a wait for a lock that was longer than the
// transaction's lock_timeout.
const LockTimeout = "55P03"

// InsufficientPrivilege is the SQLSTATE of what the role of a session may not do.
const InsufficientPrivilege = "42501"

// noConnections is the SQLSTATE of a database that was told to accept none.
const noConnections = "55000"

// SQLState returns the SQLSTATE in err's chain, or "".
func SQLState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// Wrap gives err a code. It returns nil for nil, and an error that has a code
// already unchanged.
//
//   - a connection that cannot be had, for whatever reason: CodeUnavailable.
//   - 22, 23: the values cannot be stored: CodeInvalid.
//   - 08, 28, 3D, 40, 53, 57, 58, 55P03, 25006, BF001, 26000, 42P05, a connection that
//     cannot be had or was lost, a deadline: CodeUnavailable, the same request may be
//     sent again.
//   - 3F000, 42P01, 42883: the tables or functions are not there, perhaps because they are
//     being restored: CodeUnavailable as well.
//   - everything else: CodeInternal.
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
		return unavailable(err) // whatever the reason
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
	case strings.HasPrefix(state, "22"), strings.HasPrefix(state, "23"), state == "54001":
		var pg *pgconn.PgError
		errors.As(err, &pg)
		return &queue.Error{Code: queue.CodeInvalid, Message: "the database refused a value: " + pg.Message, Err: err}
	case slices.ContainsFunc([]string{"08", "28", "3D", "40", "53", "57", "58"}, func(class string) bool { return strings.HasPrefix(state, class) }),
		state == LockTimeout, state == sqlstateReadOnly, state == PartitionGone, strayed(state):
		return unavailable(err)
	case state == "3F000", state == "42P01", state == "42883":
		return &queue.Error{
			Code: queue.CodeUnavailable, RetryAfter: RetryAfter, Err: err,
			Message: "what Belfry needs is not in the database: send the request again once it has been restored, or see `belfry migrate status`",
		}
	default:
		return &queue.Error{Code: queue.CodeInternal, Message: "internal error", Err: err}
	}
}

// reasons are why the database is not available, where its operator can do something
// about it.
var reasons = map[string]string{
	sqlstateReadOnly: " (it is read only)",
	"28000":          " (it refuses the login of this server)",
	InsufficientPrivilege:          " (it refuses the login of this server)",
	noConnections:    " (it accepts no connections)",
	"28P01":          " (it refuses the password of this server)",
	"3D000":          " (it does not exist)",
	"53100":          " (its disk or its shared memory is full)",
	"53200":          " (it has no memory left for this)",
	"53300":          " (it takes no more connections)",
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

// ConnectionLost reports whether err says that the connection could not be had, was lost
// or ran out of time: the outcome of what was sent over it is unknown.
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
		errors.Is(err, puddle.ErrClosedPool) || pgconn.SafeToRetry(err)
}

// Retryable reports whether the same statements may succeed when they are sent
// again: the connection was lost or could not be had, or the database chose this
// transaction to give way.
func Retryable(err error) bool {
	if errors.Is(err, context.Canceled) {
		return false
	}
	state := SQLState(err)
	return strings.HasPrefix(state, "40") || ConnectionLost(err)
}

// IsNoRows reports whether a query that should return a row returned none.
func IsNoRows(err error) bool { return errors.Is(err, pgx.ErrNoRows) }
