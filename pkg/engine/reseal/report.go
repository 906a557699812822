package reseal

import "github.com/belfry-mq/belfry/pkg/queue"

// MaxFailures is how many failures Counts list.
const MaxFailures = 10

// The names of keys without an id. An id contains no parentheses.
const (
	SingleKey = "(encryption.key)"
	// OlderKey: the envelope names no key, because an older version made it.
	OlderKey  = "(older envelope)"
	ClearText = "(clear text)"
	// UnreadKey: Postgres cannot read the message.
	UnreadKey = "(unreadable)"
)

// keyName returns the name of the key of a message.
func keyName(encrypted bool, id *string) string {
	switch {
	case !encrypted:
		return ClearText
	case id == nil:
		return OlderKey
	case *id == "":
		return SingleKey
	default:
		return *id
	}
}

// Report is the result of a run.
type Report struct {
	// Current is the name of the current key.
	Current string
	// Passes counts the passes, also one that was stopped.
	Passes int
	// Resealed counts the messages that all passes changed.
	Resealed int
	// Last are the counts of the last pass: what the queue holds after it.
	Last Counts
}

// Counts are the counts of messages.
type Counts struct {
	// Messages is how many messages each key has.
	Messages map[string]int
	// Resealed messages were changed. Locked messages were not, because another transaction had locked them.
	Resealed, Locked int
	// Failed is the number of messages that cannot be decrypted, or that Postgres cannot read. Failures has the
	// first MaxFailures of them.
	Failed   int
	Failures []Failure
}

// Message names a message.
type Message struct {
	Partition     string
	ID            queue.ID
	TransactionID string
}

// Failure is a message that cannot be decrypted or read.
type Failure struct {
	Message
	// Key is the name of its key.
	Key    string
	Reason error
}

func newCounts() Counts { return Counts{Messages: map[string]int{}} }

// Read is the number of messages.
func (c *Counts) Read() (n int) {
	for _, messages := range c.Messages {
		n += messages
	}
	return n
}

func (c *Counts) fail(f Failure) {
	c.Failed++
	if len(c.Failures) < MaxFailures {
		c.Failures = append(c.Failures, f)
	}
}

// add adds the counts of a page.
func (c *Counts) add(page *Counts) {
	for key, n := range page.Messages {
		if c.Messages[key] += n; c.Messages[key] == 0 {
			delete(c.Messages, key)
		}
	}
	c.Resealed += page.Resealed
	c.Locked += page.Locked
	c.Failed += page.Failed
	c.Failures = append(c.Failures, page.Failures[:min(len(page.Failures), MaxFailures-len(c.Failures))]...)
}
