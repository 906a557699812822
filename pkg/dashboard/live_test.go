package dashboard_test

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/dashboard"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

// slowAPI answers each request after a time. For one path it keeps the start of each read that has ended.
type slowAPI struct {
	api
	takes time.Duration

	mu    sync.Mutex
	reads []time.Time
}

func (a *slowAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	<-time.After(a.takes)
	a.api.ServeHTTP(w, r)
	if r.URL.Path == "/api/v1/streams" {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.reads = append(a.reads, began)
	}
}

// hasRead reports whether a read that started at since or later has ended.
func (a *slowAPI) hasRead(since time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.reads) > 0 && !a.reads[len(a.reads)-1].Before(since)
}

// events is a response writer for a stream without a connection.
type events struct {
	http.ResponseWriter
	io.Writer
}

func (e events) Write(p []byte) (int, error) { return e.Writer.Write(p) }

func (events) Flush() {}

// keepCurrent reads a page again at each event of its stream, as a browser does, until ctx ends.
func keepCurrent(ctx context.Context, d http.Handler, since string) {
	from, to := io.Pipe()
	stream := httptest.NewRequestWithContext(ctx, http.MethodGet, "/ui/live?since="+since, http.NoBody)
	go func() {
		d.ServeHTTP(events{httptest.NewRecorder(), to}, stream)
		_ = to.Close()
	}()
	ids := make(chan string, 1)
	go func() {
		defer close(ids)
		for text := make([]byte, 1000); ; {
			n, err := from.Read(text)
			if err != nil {
				return
			}
			if _, rest, ok := strings.Cut(string(text[:n]), "id: "); ok {
				id, _, _ := strings.Cut(rest, "\n")
				select {
				case <-ids:
				default:
				}
				ids <- id
			}
		}
	}()
	for id := range ids {
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/ui/streams", http.NoBody)
		r.Header.Set("X-Live", id)
		d.ServeHTTP(httptest.NewRecorder(), r)
	}
}

// An open page shows each change within a second. After a quiet time it shows a single change within 250 ms. The page makes
// one read, which takes 100 ms.
func TestAnOpenPageIsCurrentWithinASecond(t *testing.T) {
	t.Parallel()
	for name, most := range map[string]struct{ between, took time.Duration }{
		"a change now and then": {5 * time.Second, 250 * time.Millisecond}, "changes all the time": {20 * time.Millisecond, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				served, changes := &slowAPI{takes: 100 * time.Millisecond}, &source.Changes{}
				d, err := dashboard.New(dashboard.DefaultConfig(), dashboard.Deps{API: served, Changes: changes, Log: zap.NewNop()})
				require.NoError(t, err)
				var pages sync.WaitGroup
				for range 10 {
					since := sinceOf(t, d)
					pages.Go(func() { keepCurrent(t.Context(), d, since) })
				}
				var worst time.Duration
				var waiting sync.WaitGroup
				for range 200 {
					<-time.After(most.between/2 + rand.N(most.between))
					at := time.Now()
					changes.Changed()
					waiting.Go(func() {
						for !served.hasRead(at) && time.Since(at) < time.Minute {
							<-time.After(5 * time.Millisecond)
						}
						served.mu.Lock()
						defer served.mu.Unlock()
						worst = max(worst, time.Since(at))
					})
				}
				waiting.Wait()
				d.Close()
				pages.Wait()
				require.Less(t, worst, most.took)
			})
		})
	}
}
