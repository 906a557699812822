package logbuffer

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// stalled is a file whose reader does not read before resume is closed.
type stalled struct {
	resume chan struct{}

	mu   sync.Mutex
	text strings.Builder
}

func (s *stalled) Write(p []byte) (int, error) {
	<-s.resume
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// Writers do not wait for a reader that stalls. Lines that do not fit into the buffer are counted. onDropped gets their number
// when the reader reads again. All other lines arrive whole and in order.
func TestAStalledReaderStopsNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file := &stalled{resume: make(chan struct{})}
		var told []int64
		b := New(file, func(lines int64) { told = append(told, lines) })
		const lines = 3 * size / 1024
		for i := range lines {
			n, err := fmt.Fprintf(b, "%1023d\n", i)
			require.NoError(t, err)
			require.Equal(t, 1024, n)
		}
		require.Greater(t, b.Dropped(), int64(lines/2))
		require.NoError(t, b.Sync(), "Sync gives up after a second")
		require.Empty(t, told)
		close(file.resume)
		synctest.Wait()
		require.Equal(t, []int64{b.Dropped()}, told)
		written := strings.Fields(file.text.String())
		require.Len(t, written, lines-int(b.Dropped()))
		for i, line := range written {
			require.Equal(t, fmt.Sprint(i), line)
		}
		_, _ = b.Write([]byte("last\n"))
		require.NoError(t, b.Sync())
		require.Contains(t, file.text.String(), "last\n")
	})
}

func TestAReaderThatHasGoneIsReported(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer func() { require.NoError(t, w.Close()) }()
	require.NoError(t, r.Close())
	b := New(w, nil)
	for range 2 {
		_, err = b.Write([]byte("line\n"))
		require.NoError(t, err)
		<-b.Gone()
	}
	require.EqualValues(t, 2, b.Dropped())
	require.NoError(t, b.Sync())
}
