package progress

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A command of less than 1 s shows nothing. A longer command shows a bar, and removes the bar at the end.
func TestLongCommandsShowProgress(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	began := time.Unix(0, 0)
	p := Start(&out, "messages", began)
	p.Show(10, 0.1, began.Add(999*time.Millisecond))
	p.End()
	require.Empty(t, out.String())
	p.Show(50, 0.5, began.Add(2*time.Second))
	p.Show(60, 0.6, began.Add(2100*time.Millisecond))
	require.Equal(t, "\r\x1b[K[===============               ]  50%  50 messages, 25/s", out.String())
	out.Reset()
	p.Show(90, -1, began.Add(3*time.Second))
	p.End()
	require.Equal(t, "\r\x1b[K90 messages, 30/s\r\x1b[K", out.String())
	(*Progress)(nil).Show(1, 1, began)
	(*Progress)(nil).End()
}
