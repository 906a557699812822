package listen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/belfry-mq/belfry/pkg/postgres"
)

const (
	// connectTimeout bounds connecting, unless the URL sets another limit. The hosts of the URL share it.
	connectTimeout = 5 * time.Second
	// closeTimeout bounds the regular close of a connection.
	closeTimeout = time.Second
	// tcpUserTimeout is how long sent bytes may stay unacknowledged. Then the kernel
	// closes the connection and every read on it fails.
	tcpUserTimeout = 15 * time.Second
)

var errConnClosed = errors.New("the connection was closed")

// cancelableConn is a connection to Postgres that can be cut. A cut closes the socket during any operation, and prevents a new
// dial for a cancel request. So nothing of the connection stays open on a frozen network.
type cancelableConn struct {
	*pgx.Conn
	lifetime context.Context //nolint:containedctx // ends when the connection is cut
	cut      context.CancelCauseFunc
}

// parse reads a DSN into the config of a cancelableConn.
func parse(url, applicationName string) (*pgx.ConnConfig, error) {
	config, err := postgres.ParseURL(url)
	if err != nil {
		return nil, err
	}
	config.RuntimeParams["application_name"] = applicationName
	postgres.ShareConnectTimeout(&config.Config, connectTimeout)
	// A hot standby accepts neither LISTEN nor NOTIFY. If the URL has several hosts, pgx then tries the next host.
	if config.ValidateConnect == nil {
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	config.RuntimeParams["client_encoding"] = "UTF8" // the database may default to another encoding
	// Postgres counts a listening session as idle, so idle_session_timeout would end it.
	config.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		ctx, cancel := context.WithTimeout(ctx, config.ConnectTimeout)
		defer cancel()
		return conn.Exec(ctx, "SET idle_session_timeout = 0").Close()
	}
	// No prepared statements: they do not work through every pooler.
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	return config, nil
}

// openConn connects. ctx bounds only the connecting.
func openConn(ctx context.Context, config *pgx.ConnConfig) (*cancelableConn, error) {
	lifetime, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	config = config.Copy()
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		return dial(ctx, lifetime, network, address)
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		cut(errConnClosed)
		return nil, fmt.Errorf("connecting: %w", err)
	}
	return &cancelableConn{Conn: conn, lifetime: lifetime, cut: cut}, nil
}

// isCut reports whether the connection was cut.
func (c *cancelableConn) isCut() bool { return c.lifetime.Err() != nil }

// cause returns the reason of the cut.
func (c *cancelableConn) cause() error { return context.Cause(c.lifetime) }

// close closes the connection regularly, for at most closeTimeout. It waits until all resources of the connection are released.
func (c *cancelableConn) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	_ = c.Close(ctx) // drop closes the socket in any case
	c.drop(ctx)
}

// drop cuts the connection and waits until all its resources are released.
func (c *cancelableConn) drop(ctx context.Context) {
	c.cut(errConnClosed)
	_ = c.Close(ctx) // the socket is closed already: this releases the resources of pgx
	<-c.PgConn().CleanupDone()
}

// dial opens a socket that closes when lifetime ends.
func dial(ctx, lifetime context.Context, network, address string) (net.Conn, error) {
	if err := context.Cause(lifetime); err != nil {
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
	context.AfterFunc(lifetime, func() { _ = raw.Close() }) // the user of the socket gets an error
	return raw, nil
}
