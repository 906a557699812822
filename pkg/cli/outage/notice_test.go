package outage_test

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/cli/outage"
	"github.com/belfry-mq/belfry/pkg/client"
)

// Many calls may wait for one server. The user gets at most one line every 30 s.
func TestReportWritesOneLineEvery30Seconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		n := outage.New(&out)
		refused := errors.New("connection refused")
		n.Report(client.Outage{URL: "http://a", Cause: refused, Left: 27900 * time.Millisecond})
		n.Report(client.Outage{URL: "http://a", Left: 28 * time.Second})
		require.Equal(t, "belfry: the command waits for the server at http://a (connection refused); it gives up in 28s\n", out.String())
		out.Reset()
		time.Sleep(30 * time.Second)
		n.Report(client.Outage{URL: "http://a", Left: -1})
		require.Equal(t, "belfry: the command waits for the server at http://a (no connection yet); it waits until you stop it\n", out.String())
		out.Reset()
		time.Sleep(30 * time.Second)
		n.Silence()
		n.Report(client.Outage{URL: "http://a", Left: -1})
		require.Empty(t, out.String())
	})
}
