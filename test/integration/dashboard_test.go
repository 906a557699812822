package integration_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/stopwatch"
)

// tab simulates an open page of the dashboard with the logic of assets/live.js. Each event `change` of the stream makes it
// read the page again. Events that arrive during a read cause one more read.
type tab struct {
	// reads counts the refreshes. shown is the body of the latest refresh.
	reads atomic.Int64
	shown atomic.Pointer[string]
	close func()
}

// openTab opens a page. The end of t closes the page.
func (s *server) openTab(t *testing.T, page string) *tab {
	t.Helper()
	body, err := s.readPage(t.Context(), page, "")
	require.NoError(t, err)
	since := sinceInPage.FindStringSubmatch(body)
	require.Len(t, since, 2, body)
	stream := s.openStream(t, get("/ui/live?since="+since[1]))
	one, ended, due := &tab{}, make(chan struct{}), make(chan string, 1)
	var work sync.WaitGroup
	work.Go(func() {
		defer close(ended)
		for e := range stream.events {
			if e.kind == "change" {
				select {
				case <-due:
				default:
				}
				due <- e.id
			}
		}
	})
	work.Go(func() {
		for {
			select {
			case since := <-due:
				if body, err := s.readPage(context.WithoutCancel(t.Context()), page, since); err == nil {
					one.shown.Store(&body)
					one.reads.Add(1)
				}
			case <-ended:
				return
			}
		}
	})
	one.close = sync.OnceFunc(func() {
		stream.close()
		work.Wait()
	})
	t.Cleanup(one.close)
	return one
}

var sinceInPage = regexp.MustCompile(`data-since="([^"]+)"`)

// readPage reads a page. change is the id of the event that caused the read; it is empty for the first read.
func (s *server) readPage(ctx context.Context, page, change string) (body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+"/ui/"+page, http.NoBody)
	if err != nil {
		return "", err
	}
	if change != "" {
		request.Header.Set("X-Live", change)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", page, answer.Status)
	}
	return string(text), err
}

// A figure of an open page must change within a second after an event, at the same instance or at another one. The limit
// grows with the loading time of the page, because the test machine loads the page.
func TestAFigureMovesWithinASecond(t *testing.T) {
	t.Parallel()
	here := start(t, proven)
	there := startOn(t, here.dsn, proven)
	here.untilProven(t, 1)
	there.untilProven(t, 1)
	here.client(t).pushIDs("q", "p", "first")
	open := here.openTab(t, "queue?q=q")
	pushed := 1
	for at, s := range map[string]*server{"this instance": here, "another instance": there} {
		quietSince, reads := time.Now(), open.reads.Load()
		until(t, "nothing happens", func() bool {
			if n := open.reads.Load(); n != reads {
				quietSince, reads = time.Now(), n
			}
			return time.Since(quietSince) > 2300*time.Millisecond
		})
		began := time.Now()
		_, err := here.readPage(t.Context(), "queue?q=q", "")
		require.NoError(t, err)
		load := time.Since(began)
		pushed++
		figure := fmt.Sprintf(`<span class="figure">%d</span>`, pushed)
		s.client(t).pushIDs("q", "p", fmt.Sprint(pushed))
		watch := stopwatch.Start(t)
		until(t, "the page shows the new figure", func() bool {
			shown := open.shown.Load()
			return shown != nil && strings.Contains(*shown, figure)
		})
		t.Logf("%s: the figure changed after %s; the page loaded in %s", at, watch.Elapsed(), load)
		watch.Within(t, time.Second+2*load, "time until the figure changes after an event at "+at)
	}
}

// The dashboard must answer HEAD like GET, but without a body. HEAD of the event stream must end at once.
func TestTheDashboardAnswersHead(t *testing.T) {
	t.Parallel()
	s := start(t)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for path, want := range map[string]int{
		"/": http.StatusSeeOther, "/ui": http.StatusSeeOther, "/ui/": http.StatusOK, "/ui/queues": http.StatusOK, "/ui/live": http.StatusOK,
		"/ui/assets/any/app.js": http.StatusOK, "/ui/assets/any/style.css": http.StatusNotFound, "/ui/nothing": http.StatusNotFound,
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodHead, s.base+path, http.NoBody)
		require.NoError(t, err)
		answer, err := client.Do(request)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, want, answer.StatusCode, path)
	}
}

// A server that stops must end the streams of open pages at once. So open pages do not delay the stop.
func TestOpenPagesDoNotDelayAStop(t *testing.T) {
	t.Parallel()
	s := start(t)
	streams := make([]*stream, 20)
	for i := range streams {
		streams[i] = s.openStream(t, get("/ui/live"))
		streams[i].until("change")
	}
	watch := stopwatch.Start(t)
	require.NoError(t, s.stop(t))
	watch.Within(t, patience/3, "time of the stop with open pages")
	for _, one := range streams {
		one.untilEnd()
	}
}
