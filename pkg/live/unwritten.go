package live

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/belfry-mq/belfry/pkg/backoff"
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
	maxUnwritten = 5600
)

// exchange asks the other instances what they have counted and not written, and answers them.
type exchange struct {
	send  func(m message)
	peers func() int
	own   func(size int) []byte
	// wake has an element if an instance has asked since the last answer.
	wake chan struct{}

	mu      sync.Mutex // guards the rest
	answers map[queue.ID]answer
	// latest is the latest question. Further readers use its answers until reusable. open are the questions that wait
	// for answers.
	latest   *question
	reusable time.Time
	open     []*question
}

// answer is what another instance has counted and not written.
type answer struct {
	heard time.Time
	text  []byte
}

// question is one question to all other instances. done is closed when want of them have answered, or in answerPatience.
type question struct {
	want     int
	answered map[queue.ID]bool
	done     chan struct{}
}

func newExchange(h *Hub) *exchange {
	return &exchange{send: h.send, peers: h.Peers, own: h.OwnUnwritten, wake: make(chan struct{}, 1), answers: map[queue.ID]answer{}}
}

// Unwritten returns what the other instances have counted and not written; see Deps.OwnUnwritten. It asks them, and blocks
// until they have answered: at most half a second. Of an instance that does not answer in time it returns the answer
// before. If there is no other instance it asks nobody.
func (h *Hub) Unwritten(ctx context.Context) [][]byte {
	x := h.exchange
	want := min(x.peers(), maxPeers)
	if want == 0 {
		return nil
	}
	select {
	case <-x.ask(want).done:
	case <-ctx.Done():
	}
	return x.known()
}

// ask returns the latest question if its answers are new enough. Otherwise it asks a new one.
func (x *exchange) ask(want int) *question {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	if x.latest != nil && now.Before(x.reusable) {
		return x.latest
	}
	q := &question{want: want, answered: map[queue.ID]bool{}, done: make(chan struct{})}
	x.latest, x.reusable = q, now.Add(answerPatience+answerReuse)
	x.open = append(x.open, q)
	time.AfterFunc(answerPatience, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.endLocked(q)
	})
	x.send(message{Ask: true})
	return q
}

// endLocked ends a question, if it is still open.
func (x *exchange) endLocked(q *question) {
	if i := slices.Index(x.open, q); i >= 0 {
		x.open = slices.Delete(x.open, i, i+1)
		close(q.done)
		if q == x.latest && !x.reusable.IsZero() {
			x.reusable = time.Now().Add(answerReuse)
		}
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
		wake(x.wake)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if m.Rates != nil { // the answers that are known are older
		x.reusable = time.Time{}
	}
	if _, known := x.answers[from]; !m.Answer || !known && len(x.answers) >= maxPeers {
		return
	}
	x.answers[from] = answer{time.Now(), m.Unwritten}
	for _, q := range slices.Clone(x.open) {
		if q.answered[from] = true; len(q.answered) >= q.want {
			x.endLocked(q)
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
