package listen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// connectTimeout bounds making a connection, unless the URL says otherwise.
	connectTimeout = 5 * time.Second
	// farewell bounds telling Postgres that a connection ends.
	farewell = time.Second
	// tcpUserTimeout is how long sent bytes may go unacknowledged before the
	// kernel gives the connection up, and with it every read on it.
	tcpUserTimeout = 15 * time.Second
)

var errLineClosed = errors.New("the connection was closed")

// line is a connection to Postgres that can be cut. Cutting closes its socket
// under whatever is being done with it, and keeps it from dialing again to send a
// cancel request, so that nothing of it lingers on a frozen network.
type line struct {
	*pgx.Conn
	life context.Context //nolint:containedctx // it is the life of the connection
	cut  context.CancelCauseFunc
}

// parse reads a DSN for lines.
func parse(url, applicationName string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err // it names what is wrong, without the password
	}
	config.RuntimeParams["application_name"] = applicationName
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	// A hot standby takes neither LISTEN nor NOTIFY. With several hosts in the URL
	// the next one is tried.
	if config.ValidateConnect == nil {
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	config.RuntimeParams["client_encoding"] = "UTF8" // a database may have another one for its sessions
	// To Postgres who listens is idle.
	config.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		ctx, cancel := context.WithTimeout(ctx, config.ConnectTimeout)
		defer cancel()
		return conn.Exec(ctx, "SET idle_session_timeout = 0").Close()
	}
	// Nothing is prepared: that would not survive a pooler.
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	return config, nil
}

// openLine connects. ctx bounds connecting and nothing after it.
func openLine(ctx context.Context, config *pgx.ConnConfig) (*line, error) {
	life, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	config = config.Copy()
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		return dial(ctx, life, network, address)
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		cut(errLineClosed)
		return nil, fmt.Errorf("connecting: %w", err)
	}
	return &line{Conn: conn, life: life, cut: cut}, nil
}

// over says whether the line has been cut.
func (l *line) over() bool { return l.life.Err() != nil }

// cause says why it has been cut.
func (l *line) cause() error { return context.Cause(l.life) }

// close ends the line and waits until nothing of it is left, which takes farewell
// at most.
func (l *line) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	_ = l.Close(ctx) // whether Postgres heard it makes no difference
	l.drop(ctx)
}

// drop is close without a word to Postgres.
func (l *line) drop(ctx context.Context) {
	l.cut(errLineClosed)
	_ = l.Close(ctx) // the socket is closed: this is for what pgx holds
	<-l.PgConn().CleanupDone()
}

// dial makes a socket that is closed when life ends.
func dial(ctx, life context.Context, network, address string) (net.Conn, error) {
	if err := context.Cause(life); err != nil {
		return nil, err
	}
	dialer := net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 3 * time.Second, Count: 3},
		Control:         setUserTimeout,
	}
	raw, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(life, func() { _ = raw.Close() }) // whoever uses it gets the error
	return &socket{Conn: raw, stop: stop}, nil
}

// socket forgets the life it is bound to when it is closed.
type socket struct {
	net.Conn
	stop func() bool
}

func (s *socket) Close() error {
	s.stop()
	return s.Conn.Close()
}
