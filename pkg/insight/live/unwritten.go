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
	// answerInterval is the minimum time between two answers of an instance.
	answerInterval = 250 * time.Millisecond
	// answerPatience is how long a reader waits for the answers of the other instances. answerReuse is how long
	// later readers use the same answers.
	answerPatience, answerReuse = 500 * time.Millisecond, 500 * time.Millisecond
	// answerAge is how long a hub uses the last answer of an instance that no longer answers.
	answerAge = 2 * time.Minute
	// maxUnwritten is the maximum size of an answer in bytes. The whole message, which has the answer in base64, is
	// smaller than maxPayload.
	maxUnwritten = 4100
)

// exchange asks the other instances for their unwritten counts, and answers their questions.
type exchange struct {
	send  func(m message)
	peers func() []queue.ID
	own   func(size int) []byte
	// wake has an element if another instance has asked since the last answer.
	wake events.Signal

	mu      sync.Mutex // guards the fields below
	answers map[queue.ID]answer
	// latest is the latest question. No earlier question is open.
	latest *question
}

// answer has the unwritten counts of another instance.
type answer struct {
	heard time.Time
	text  []byte
}

// question is one question to all other instances. It is open until expectedAnswers instances have answered, or until
// answerPatience has passed. Then done is closed. Other readers share an open question, and use its answers until
// reusableUntil.
type question struct {
	expectedAnswers int
	answered        map[queue.ID]bool
	done            chan struct{}
	reusableUntil   time.Time // zero while it is open
	// outdated is true if another instance has sent figures since the question. Its answer may be older than the figures.
	outdated bool
}

func newExchange(h *Hub) *exchange {
	return &exchange{send: h.send, peers: h.Peers, own: h.OwnUnwritten, wake: events.NewSignal(), answers: map[queue.ID]answer{}}
}

// Unwritten returns the unwritten counts of the other instances (Deps.OwnUnwritten). It asks them, and blocks until they
// have answered, for at most answerPatience. If an instance does not answer in time, Unwritten returns its previous
// answer. If there is no other instance, Unwritten sends nothing.
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

// ask returns the latest question if it is open, or if its answers are new enough. Otherwise it sends a new question.
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

// known returns the last answers of all instances, without answers older than answerAge.
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

// heard handles a message of another instance. It does not block.
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
