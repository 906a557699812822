package listen

import (
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// maxMarks bounds what waits to be sent; beyond it the marks become one All,
	// which costs the others a look at everything and loses nothing.
	maxMarks = 100_000
	// maxPayloads bounds one statement; what needs more becomes one All.
	maxPayloads = 64
)

// place is what a ready entry is about.
type place struct{ group, partition int64 }

// marks is the set of what is to be sent. The zero value is empty. It is not safe
// for concurrent use.
type marks struct {
	ready     map[place]time.Time // the earliest instant of each; zero is now
	born, all bool
	canary    uint64 // the latest
	bye       bool
}

func (m *marks) empty() bool {
	return len(m.ready) == 0 && !m.born && !m.all && m.canary == 0 && !m.bye
}

// add marks an entry. One that could not be encoded becomes All: better a look
// too many than a hint that nobody understands.
func (m *marks) add(e Entry) {
	switch {
	case m.all:
	case e.Kind == KindResync || !e.encodable():
		m.everything()
	case e.Kind == KindCreated:
		m.born = true
	default:
		m.addReady(place{e.Group, e.Partition}, e.At)
	}
}

func (m *marks) addReady(p place, at time.Time) {
	if m.ready == nil {
		m.ready = make(map[place]time.Time)
	}
	// The zero time is before every other one, as now is.
	if known, ok := m.ready[p]; ok && !at.Before(known) {
		return
	}
	m.ready[p] = at
	if len(m.ready) > maxMarks {
		m.everything()
	}
}

func (m *marks) everything() { m.all, m.born, m.ready = true, false, nil }

// merge adds what another set holds.
func (m *marks) merge(other *marks) {
	m.canary = max(m.canary, other.canary)
	m.bye = m.bye || other.bye
	switch {
	case m.all:
	case other.all:
		m.everything()
	default:
		m.born = m.born || other.born
		for p, at := range other.ready {
			if m.all {
				return
			}
			m.addReady(p, at)
		}
	}
}

// payloads returns the set as notifications of one statement, and how many
// entries they carry.
func (m *marks) payloads(instance queue.ID) (payloads []string, entries int64) {
	message := Message{Instance: instance, Canary: m.canary, Goodbye: m.bye}
	if m.born {
		message.Entries = append(message.Entries, Created())
	}
	if m.all {
		message.Entries = append(message.Entries, Resync())
	}
	for p, at := range m.ready {
		message.Entries = append(message.Entries, Ready(p.group, p.partition, at))
	}
	if payloads = Encode(message); len(payloads) > maxPayloads {
		message.Entries = []Entry{Resync()}
		payloads = Encode(message)
	}
	return payloads, int64(len(message.Entries))
}
