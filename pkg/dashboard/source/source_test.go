package source_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

// api counts the requests by path, and answers each after a while.
type api struct {
	mu    sync.Mutex
	calls map[string]int
	delay time.Duration
	// status is the status of the answers. 0 means 200.
	status int
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	if a.calls == nil {
		a.calls = map[string]int{}
	}
	a.calls[r.URL.Path]++
	n := a.calls[r.URL.Path]
	a.mu.Unlock()
	<-time.After(a.delay)
	if a.status != 0 {
		w.WriteHeader(a.status)
		_, _ = w.Write([]byte(`{"error": "no"}`))
		return
	}
	_, _ = w.Write([]byte{'0' + byte(n)})
}

func (a *api) count(path string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.calls[path]
}

func caller(role identity.Role, read ...string) *source.Caller {
	c := &source.Caller{Request: httptest.NewRequest(http.MethodGet, "/", http.NoBody), Token: role.String()}
	c.Principal = &identity.Principal{Role: role}
	if read != nil {
		c.Principal.Grants = &identity.Grants{Read: read}
	}
	return c
}

func read(t *testing.T, c *source.Client, by *source.Caller) int {
	t.Helper()
	n, err := source.Read[int](t.Context(), c, by, "/n")
	require.NoError(t, err)
	return *n
}

// Ten callers with equal grants cause one request to the API. Callers with different roles or grants get separate answers.
func TestCallersWithEqualGrantsShareAnAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		served := &api{delay: time.Second}
		c := source.New(served, &source.Changes{})
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { read(t, c, caller(identity.Admin)) })
		}
		all.Wait()
		require.Equal(t, 1, served.count("/n"))
		read(t, c, caller(identity.ReadOnly))
		read(t, c, caller(identity.ReadOnly, "a"))
		read(t, c, caller(identity.ReadOnly, "b"))
		require.Equal(t, 4, served.count("/n"))
	})
}

// Without a change, an answer is used again. After a change, the client reads again, at most every 400 ms.
func TestAnAnswerIsUsedUntilSomethingChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		served, changes := &api{}, &source.Changes{}
		c, admin := source.New(served, changes), caller(identity.Admin)
		for range 20 {
			require.Equal(t, 1, read(t, c, admin))
			<-time.After(time.Second)
		}
		changed := changes.After(changes.Count())
		changes.Changed()
		<-changed
		require.Equal(t, 2, read(t, c, admin))
		for range 30 {
			changes.Changed()
			read(t, c, admin)
			<-time.After(10 * time.Millisecond)
		}
		require.Equal(t, 2, served.count("/n"))
		refresh := caller(identity.Admin)
		refresh.Least = changes.Count()
		require.Equal(t, 3, read(t, c, refresh), "a page that is read because of a change includes the change")
		fresh := caller(identity.Admin)
		fresh.Fresh = true
		changes.Changed()
		require.Equal(t, 4, read(t, c, fresh), "a page that a person loads includes every change")
		changes.Changed()
		<-time.After(c.Stale())
		require.Equal(t, 5, read(t, c, admin), "after Stale, an answer includes the last change")
	})
}

// After Do, a read includes the change, even if the same path was read just before.
func TestAReadIncludesTheOwnChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		served := &api{}
		c, admin := source.New(served, &source.Changes{}), caller(identity.Admin)
		require.Equal(t, 1, read(t, c, admin))
		require.NoError(t, c.Do(admin, http.MethodPost, "/change", map[string]int{"a": 1}, nil))
		require.Equal(t, 2, read(t, c, admin))
	})
}

// If a read started before a change, a caller that needs the change does not get its answer.
func TestAReadThatStartedTooEarlyIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		served, changes := &api{delay: time.Second}, &source.Changes{}
		c := source.New(served, changes)
		var first sync.WaitGroup
		first.Go(func() { read(t, c, caller(identity.Admin)) })
		synctest.Wait()
		require.Equal(t, 1, read(t, c, caller(identity.Admin)))
		first.Go(func() { require.Equal(t, 2, read(t, c, caller(identity.ReadOnly))) })
		synctest.Wait()
		changes.Changed()
		refresh := caller(identity.ReadOnly)
		refresh.Least = 1
		require.Equal(t, 3, read(t, c, refresh))
		first.Wait()
	})
}

// The client does not keep an error.
func TestAnErrorIsReadAgain(t *testing.T) {
	t.Parallel()
	served := &api{status: http.StatusForbidden}
	c := source.New(served, &source.Changes{})
	_, err := source.Read[int](t.Context(), c, caller(identity.Admin), "/n")
	require.True(t, source.IsStatus(err, http.StatusForbidden))
	require.EqualError(t, err, "no")
	served.status = 0
	require.Equal(t, 2, read(t, c, caller(identity.Admin)))
}
