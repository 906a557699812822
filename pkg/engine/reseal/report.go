package reseal

import "github.com/belfry-mq/belfry/pkg/queue"

// MaxFailures is the maximum number of failures that Counts lists.
const MaxFailures = 10

// The names of keys without an id. An id contains no parentheses.
const (
	SingleKey = "(encryption.key)"
	// OlderKey stands for an envelope without a key id. An older version made such envelopes.
	OlderKey  = "(older envelope)"
	ClearText = "(clear text)"
	// UnreadKey stands for a message that Postgres cannot read.
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
	// Passes is the number of passes. It includes a pass that was stopped.
	Passes int
	// Resealed counts the messages that all passes changed.
	Resealed int
	// Last holds the counts of the queue after the last pass.
	Last Counts
}

// Counts are the counts of messages.
type Counts struct {
	// Messages is the number of messages by name of their key.
	Messages map[string]int
	// Resealed is the number of changed messages. Locked is the number of messages that another transaction
	// had locked, so that they were not changed.
	Resealed, Locked int
	// Failed is the number of messages that cannot be decrypted, or that Postgres cannot read. Failures has the
	// first MaxFailures such messages.
	Failed   int
	Failures []Failure
}

// Message identifies a message.
type Message struct {
	Partition     string
	ID            queue.ID
	TransactionID string
}

// Failure is a message that cannot be decrypted or read.
type Failure struct {
	Message
	// Key is the name of the key of the message.
	Key    string
	Reason error
}

func newCounts() Counts { return Counts{Messages: map[string]int{}} }

// Read returns the number of messages.
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
