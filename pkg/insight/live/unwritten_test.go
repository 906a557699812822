package live_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/insight/live"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// count sets the unwritten counts of an instance.
func (i *instance) count(text string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.unwritten = text
}

// asks returns the unwritten counts of the other instances, and the duration of Unwritten.
func (i *instance) asks(t *testing.T) (found []string, took time.Duration) {
	t.Helper()
	began := time.Now()
	for _, text := range i.Unwritten(t.Context()) {
		found = append(found, string(text))
	}
	slices.Sort(found)
	return found, time.Since(began)
}

func TestAReaderGetsTheUnwrittenCountsOfOtherInstances(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		a := start(t, n, "a")
		found, took := a.asks(t)
		require.Empty(t, found)
		require.Zero(t, took)
		require.Equal(t, 1, n.count("a"), "there is no other instance, so a has sent only Hello")

		b, c := start(t, n, "b"), start(t, n, "c")
		before := n.count("b")
		<-time.After(time.Hour)
		require.Equal(t, before, n.count("b"), "no reader asks")
		b.count("of b")
		c.count("of c")
		found, took = a.asks(t)
		require.Equal(t, []string{"of b", "of c"}, found)
		require.Zero(t, took)

		// Readers share the answers, and an instance answers at most four times a second.
		before = n.count("b")
		for range 400 {
			var readers sync.WaitGroup
			for range 10 {
				readers.Go(func() { a.Unwritten(t.Context()); c.Unwritten(t.Context()) })
			}
			readers.Wait()
			<-time.After(10 * time.Millisecond)
		}
		require.LessOrEqual(t, n.count("b")-before, 17)
		b.count("")
		<-time.After(time.Second)
		found, _ = a.asks(t)
		require.Equal(t, []string{"of c"}, found, "b has written everything")
	})
}

// After another instance has sent an event, readers do not use its older answer.
func TestAnAnswerIsNotOlderThanTheLastEvent(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		a, b := start(t, n, "a"), start(t, n, "b")
		w := a.watch(t)
		after(t, w, 5*time.Second)
		b.count("1")
		found, _ := a.asks(t)
		require.Equal(t, []string{"1"}, found)
		b.count("2")
		b.push("q", 1)
		require.Equal(t, []live.Type{live.TypeRates}, types(after(t, w, 100*time.Millisecond)))
		found, _ = a.asks(t)
		require.Equal(t, []string{"2"}, found)
	})
}

// An instance that does not answer delays a reader by half a second. Readers use its last answer for two minutes, unless
// the instance has left.
func TestASilentInstanceDelaysNobodyForLong(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		a, b, c := start(t, n, "a"), start(t, n, "b"), start(t, n, "c")
		b.count("of b")
		c.count("of c")
		a.asks(t)
		<-time.After(time.Minute)
		n.mu.Lock()
		n.cut["b"] = true
		n.mu.Unlock()
		c.count("new")
		found, took := a.asks(t)
		require.Equal(t, []string{"new", "of b"}, found)
		require.Equal(t, 500*time.Millisecond, took)
		_, took = a.asks(t)
		require.Zero(t, took, "the next reads of the page do not wait again")
		ended, end := context.WithCancel(t.Context())
		end()
		<-time.After(time.Second)
		began := time.Now()
		a.Unwritten(ended)
		require.Zero(t, time.Since(began))
		<-time.After(2 * time.Minute)
		found, _ = a.asks(t)
		require.Equal(t, []string{"new"}, found)
		a.PeerLeft(c.Instance)
		n.mu.Lock()
		n.cut["c"] = true
		n.mu.Unlock()
		<-time.After(time.Second)
		found, _ = a.asks(t)
		require.Empty(t, found)
	})
}

// Forged notifications cannot make an instance answer more than four times a second, or keep more than maxPeers answers.
func TestForgedQuestionsAndAnswersAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		a, b := start(t, n, "a"), start(t, n, "b")
		b.count("of b")
		before := n.count("b")
		for range 1000 {
			b.Heard(`{"v":1,"i":"019e5f1e-0000-7000-8000-000000000000","ask":true}`)
			<-time.After(time.Millisecond)
		}
		require.LessOrEqual(t, n.count("b")-before, 5)
		answers := func(id queue.ID) string { return `{"v":1,"i":"` + id.String() + `","answer":true,"u":"eA=="}` }
		for range 1000 {
			a.Heard(answers(queue.NewID()))
		}
		found, _ := a.asks(t)
		require.Equal(t, []string{"of b"}, found, "the hub ignores answers of instances without heartbeats")
		for range 1000 {
			id := queue.NewID()
			n.mu.Lock()
			n.alive = append(n.alive, id)
			n.mu.Unlock()
			a.Heard(answers(id))
		}
		found, _ = a.asks(t)
		require.Len(t, found, 64)
	})
}

// Forged figures cannot make each reader send a separate question.
func TestReadersShareAQuestionWhileForgedFiguresCome(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		a, b := start(t, n, "a"), start(t, n, "b")
		b.count("of b")
		forged := func(id queue.ID) { a.Heard(`{"v":1,"i":"` + id.String() + `","r":{"s":1,"q":[]}}`) }
		before, began := n.count("a"), time.Now()
		for range 40 {
			var readers sync.WaitGroup
			for range 10 {
				readers.Go(func() {
					forged(b.Instance)
					a.Unwritten(t.Context())
				})
			}
			readers.Wait()
		}
		require.LessOrEqual(t, n.count("a")-before, int(time.Since(began)/(250*time.Millisecond))+2, "b answers four times a second")

		<-time.After(time.Second)
		a.asks(t)
		before = n.count("a")
		forged(queue.NewID())
		a.asks(t)
		require.Equal(t, before, n.count("a"), "the hub ignores figures of an unknown instance")
	})
}
