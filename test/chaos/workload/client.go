package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/history"
	"github.com/belfry-mq/belfry/test/chaos/principals"
	"github.com/belfry-mq/belfry/test/httpcall"
)

const (
	// callTimeout is the timeout of a request. The wait of a pop is added.
	callTimeout = 6 * time.Second
	// nothingDone and tooMany are texts of the 503 answers that exclude an effect. Every other 503 leaves the effect
	// open.
	nothingDone = "nothing was done"
	tooMany     = "too many requests are waiting"
)

// client sends requests to its servers, each time to a random one. One goroutine uses it.
type client struct {
	name    string
	clients *Clients
	urls    []string // the servers of the client
	choose  *rand.Rand
	http    *http.Client
	// once never reuses connections. On a broken reused connection, net/http repeats a GET, and an autoAck pop would
	// then consume twice.
	once     *http.Client
	recorder *history.Recorder
	// stale is the lease of the previous delivery. before is the previous delivery.
	stale  string
	before delivery
	// reads are the queues that the client pops from. nil means the common queues. The field partitions is the
	// number of partitions of each queue. If only is set, the client reads only that partition.
	reads      []string
	partitions int
	only       string
	// transacted is the number of transactions so far.
	transacted int
}

func (c *Clients) client(name string) *client {
	c.created++
	return &client{
		name: name, clients: c, urls: c.cfg.URLs, recorder: c.cfg.Recorder,
		choose: rand.New(rand.NewPCG(c.cfg.Seed, uint64(c.created))),
		http:   &http.Client{Transport: principals.Transport(tokenOf(name), &http.Transport{})},
		once:   &http.Client{Transport: principals.Transport(tokenOf(name), &http.Transport{DisableKeepAlives: true})},
	}
}

// tokenOf returns the token of a client. The producer of deletedQueue needs the operator's token, because it deletes
// messages.
func tokenOf(name string) string {
	kind, _, _ := strings.Cut(name, "-")
	switch kind {
	case "operator", "drain", "seeker", "reviver", "remover", "closer", deletedQueue:
		return principals.Operator
	case "producer":
		return principals.Producer
	default:
		return principals.Consumer
	}
}

// answer is a response. Status is 0 if no response arrived.
type answer struct {
	httpcall.Reply
	err error
}

// send sends one request to a random server.
func (c *client) send(ctx context.Context, method, target, body string, wait time.Duration) answer {
	ctx, cancel := context.WithTimeout(ctx, wait+callTimeout)
	defer cancel()
	base, sender := c.urls[c.choose.IntN(len(c.urls))], c.http
	if method == http.MethodGet {
		sender = c.once
	}
	got, err := httpcall.Send(ctx, sender, base, httpcall.Call{Method: method, Target: target, Body: body})
	switch got.Status {
	case http.StatusInternalServerError:
		c.clients.complain("%s: %s %s: an internal error: %s", c.name, method, target, got.Raw)
	case http.StatusUnauthorized, http.StatusForbidden:
		c.clients.complain("%s: %s %s: the principal may do this, but the status is %d: %s", c.name, method, target, got.Status, got.Raw)
	}
	return answer{got, err}
}

// readAnswer sets the outcome of o, and decodes the body of a success. A body that it cannot decode is a complaint.
func (c *client) readAnswer(o *history.Operation, got answer, into any) {
	switch {
	case got.err != nil:
		o.Outcome, o.Error = history.Unknown, got.err.Error()
	case got.Status == http.StatusNoContent:
		o.Outcome = history.Done
	case got.Status == http.StatusOK, got.Status == http.StatusCreated:
		o.Outcome = history.Done
		if err := json.Unmarshal(got.Raw, into); err != nil {
			o.Outcome, o.Error = history.Unknown, err.Error()
			c.clients.complain("%s: the answer to a %s cannot be read: %v: %.300s", c.name, o.Kind, err, got.Raw)
		}
	case got.Status < http.StatusInternalServerError, nothingWasDone(got):
		o.Outcome, o.Error = history.Refused, fmt.Sprintf("%d %s", got.Status, got.Raw)
	default:
		o.Outcome, o.Error = history.Unknown, fmt.Sprintf("%d %s", got.Status, got.Raw)
	}
}

func nothingWasDone(got answer) bool {
	text := string(got.Raw)
	return got.Status == http.StatusServiceUnavailable && (strings.Contains(text, nothingDone) || strings.Contains(text, tooMany))
}

// pause waits for d and returns true. If ctx ends first, it returns false.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// upTo returns a random duration from low to high.
func (c *client) upTo(low, high time.Duration) time.Duration {
	return low + time.Duration(c.choose.Int64N(int64(high-low)))
}

// chance returns true with the given probability in percent.
func (c *client) chance(percent int) bool { return c.choose.IntN(100) < percent }

func (c *client) queue() string     { return queueName(c.choose.IntN(c.clients.cfg.Queues)) }
func (c *client) partition() string { return partitionName(c.choose.IntN(c.clients.cfg.Partitions)) }

func queueName(n int) string     { return fmt.Sprintf("chaos.%d", n) }
func partitionName(n int) string { return fmt.Sprintf("p%d", n) }

// encode returns body as JSON. Every type of a body can be encoded.
func encode(body any) string {
	text, err := json.Marshal(body)
	if err != nil {
		return err.Error() // unreachable: every body can be encoded
	}
	return string(text)
}
