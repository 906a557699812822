package live

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/belfry-mq/belfry/pkg/process/backoff"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// answerInterval is the least time between two answers of an instance.
	answerInterval = 250 * time.Millisecond
	// answerPatience is how long a reader waits for the answers of the others, and answerReuse how long further
	// readers use them.
	answerPatience, answerReuse = 500 * time.Millisecond, 500 * time.Millisecond
	// answerAge is how long the last answer of an instance is used that no longer answers.
	answerAge = 2 * time.Minute
	// maxUnwritten is the most bytes of an answer. In base64, and with the rest of its message, it has less than
	// maxPayload.
	maxUnwritten = 4100
)

// exchange asks the other instances what they have counted and not written, and answers them.
type exchange struct {
	send  func(m message)
	peers func() []queue.ID
	own   func(size int) []byte
	// wake has an element if an instance has asked since the last answer.
	wake events.Signal

	mu      sync.Mutex // guards the rest
	answers map[queue.ID]answer
	// latest is the latest question. No other one is open.
	latest *question
}

// answer is what another instance has counted and not written.
type answer struct {
	heard time.Time
	text  []byte
}

// question is one question to all other instances. It is open until done is closed: when expectedAnswers of them have
// answered, or in answerPatience. Further readers share it until then, and until reusableUntil.
type question struct {
	expectedAnswers int
	answered        map[queue.ID]bool
	done            chan struct{}
	reusableUntil   time.Time // zero while it is open
	// outdated: since the question, another instance sent figures, so its answer may be older than these.
	outdated bool
}

func newExchange(h *Hub) *exchange {
	return &exchange{send: h.send, peers: h.Peers, own: h.OwnUnwritten, wake: events.NewSignal(), answers: map[queue.ID]answer{}}
}

// Unwritten returns what the other instances have counted and not written; see Deps.OwnUnwritten. It asks them, and blocks
// until they have answered: at most half a second. Of an instance that does not answer in time it returns the answer
// before. If there is no other instance it asks nobody.
func (h *Hub) Unwritten(ctx context.Context) [][]byte {
	x := h.exchange
	peers := min(len(x.peers()), maxPeers)
	if peers == 0 {
		return nil
	}
	select {
	case <-x.ask(peers).done:
	case <-ctx.Done():
	}
	return x.known()
}

// ask returns the latest question if it is open, or if its answers are new enough. Otherwise it asks a new one.
func (x *exchange) ask(expectedAnswers int) *question {
	x.mu.Lock()
	defer x.mu.Unlock()
	if q := x.latest; q != nil && (q.reusableUntil.IsZero() || !q.outdated && time.Now().Before(q.reusableUntil)) {
		return q
	}
	q := &question{expectedAnswers: expectedAnswers, answered: map[queue.ID]bool{}, done: make(chan struct{})}
	x.latest = q
	time.AfterFunc(answerPatience, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		q.end()
	})
	x.send(message{Ask: true})
	return q
}

// end ends a question, if it is still open.
func (q *question) end() {
	if q.reusableUntil.IsZero() {
		q.reusableUntil = time.Now().Add(answerReuse)
		close(q.done)
	}
}

// known returns the answers of all instances.
func (x *exchange) known() (found [][]byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for id, a := range x.answers {
		if time.Since(a.heard) >= answerAge {
			delete(x.answers, id)
		} else if len(a.text) > 0 {
			found = append(found, a.text)
		}
	}
	return found
}

// heard handles what another instance says. It does not block.
func (x *exchange) heard(from queue.ID, m *message) {
	if m.Ask {
		x.wake.Set()
	}
	if m.Rates == nil && !m.Answer || !slices.Contains(x.peers(), from) {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if m.Rates != nil && x.latest != nil {
		x.latest.outdated = true
	}
	if _, known := x.answers[from]; !m.Answer || !known && len(x.answers) >= maxPeers {
		return
	}
	x.answers[from] = answer{time.Now(), m.Unwritten}
	if q := x.latest; q != nil {
		if q.answered[from] = true; len(q.answered) >= q.expectedAnswers {
			q.end()
		}
	}
}

// left forgets an instance.
func (x *exchange) left(id queue.ID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.answers, id)
}

// run answers the questions of other instances until ctx ends.
func (x *exchange) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-x.wake:
		}
		x.send(message{Answer: true, Unwritten: x.own(maxUnwritten)})
		if backoff.Sleep(ctx, answerInterval) != nil {
			return nil
		}
	}
}
