package pgproxy_test

import (
	"bufio"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/belfry-mq/belfry/test/pgproxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo starts a server that answers every line with its name and the line.
func echo(t *testing.T, name string) string {
	t.Helper()
	var lc net.ListenConfig
	socket, err := lc.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := socket.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				lines := bufio.NewReader(conn)
				for {
					line, err := lines.ReadString('\n')
					if err != nil {
						return
					}
					if _, err := io.WriteString(conn, name+" "+line); err != nil {
						return
					}
				}
			}()
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, socket.Close())
		<-ended
	})
	return socket.Addr().String()
}

// The DSN through the proxy has no TLS, even if the original DSN asks for TLS.
func TestTheProxyDisablesTLS(t *testing.T) {
	for _, query := range []string{"", "?application_name=a", "?sslmode=prefer&application_name=a"} {
		p, through := pgproxy.New(t, "postgres://user@"+echo(t, "server")+"/name"+query)
		dsn, err := url.Parse(through)
		require.NoError(t, err)
		require.Equal(t, p.Addr(), dsn.Host)
		require.Equal(t, "/name", dsn.Path)
		require.Equal(t, "disable", dsn.Query().Get("sslmode"))
		require.Equal(t, strings.Contains(query, "application_name=a"), dsn.Query().Get("application_name") == "a")
	}
}

type conn struct {
	net.Conn
	lines *bufio.Reader
}

func dial(t *testing.T, p *pgproxy.Proxy) conn {
	t.Helper()
	var dialer net.Dialer
	c, err := dialer.DialContext(t.Context(), "tcp4", p.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() }) // in some tests the proxy has closed it
	return conn{c, bufio.NewReader(c)}
}

func (c conn) ask(t *testing.T) (string, error) {
	t.Helper()
	_, err := io.WriteString(c, "hello\n")
	require.NoError(t, err)
	return c.lines.ReadString('\n')
}

func plain(t *testing.T, target string) *pgproxy.Proxy {
	t.Helper()
	p, err := pgproxy.OpenPlain(t.Context(), target)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

func TestCutEndsOnlyExistingConnections(t *testing.T) {
	t.Parallel()
	p := plain(t, echo(t, "one"))
	old := dial(t, p)
	got, err := old.ask(t)
	require.NoError(t, err)
	require.Equal(t, "one hello\n", got)
	p.Cut()
	_, err = old.lines.ReadString('\n')
	require.Error(t, err)
	got, err = dial(t, p).ask(t)
	require.NoError(t, err)
	require.Equal(t, "one hello\n", got)
}

func TestRetargetAffectsOnlyNewConnections(t *testing.T) {
	t.Parallel()
	p := plain(t, echo(t, "one"))
	old := dial(t, p)
	_, err := old.ask(t)
	require.NoError(t, err)
	p.Retarget(echo(t, "two"))
	got, err := old.ask(t)
	require.NoError(t, err)
	require.Equal(t, "one hello\n", got)
	got, err = dial(t, p).ask(t)
	require.NoError(t, err)
	require.Equal(t, "two hello\n", got)
}

func TestLagDelaysBothDirections(t *testing.T) {
	t.Parallel()
	const lag = 50 * time.Millisecond
	p := plain(t, echo(t, "one"))
	c := dial(t, p)
	_, err := c.ask(t)
	require.NoError(t, err)
	p.Lag.Store(int64(lag))
	began := time.Now()
	_, err = c.ask(t)
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(began), 2*lag)
}

func TestAFrozenConnectionCanBeCut(t *testing.T) {
	t.Parallel()
	p := plain(t, echo(t, "one"))
	c := dial(t, p)
	_, err := c.ask(t)
	require.NoError(t, err)
	thaw := p.Freeze()
	defer thaw()
	_, err = io.WriteString(c, "hello\n")
	require.NoError(t, err)
	p.Cut()
	_, err = c.lines.ReadString('\n')
	require.Error(t, err)
}
