package dispatch

import "github.com/belfry-mq/belfry/pkg/process/heap"

// tallies is the number of tallies that count an intent: of its caller, of its group, and of the caller in
// the group.
const tallies = 3

// admissionSlot counts an intent among the waiting ones. The lock of the Intents guards it.
type admissionSlot struct {
	key     callerGroup
	tallies [tallies]*tally
	// index is the index in tally.sleeping, from 1 on, or 0.
	index [tallies]int
}

// tally counts intents.
type tally struct {
	waiting int
	// sleeping are the intents that can be displaced.
	sleeping []*intent
	// ranking has this tally, at the place rank, while it has sleeping intents.
	ranking *ranking
	rank    int
	// groups counts the groups of a caller, and byGroup has their tallies.
	groups  int
	byGroup ranking
}

// tallyOf returns the tally of the key, and makes it if needed.
func tallyOf[K comparable](all map[K]*tally, key K, by *ranking) *tally {
	t := all[key]
	if t == nil {
		t = &tally{ranking: by}
		all[key] = t
	}
	return t
}

// count returns how many intents wait. A nil tally has none.
func (t *tally) count() int {
	if t == nil {
		return 0
	}
	return t.waiting
}

func (t *tally) add(n int) {
	t.waiting += n
	if t.rank > 0 {
		t.ranking.Put(t)
	}
}

// canBeDisplaced adds the intent to those that another intent can displace.
func (in *intent) canBeDisplaced() {
	for i, t := range in.slot.tallies {
		t.sleeping = append(t.sleeping, in)
		if in.slot.index[i] = len(t.sleeping); in.slot.index[i] == 1 {
			t.ranking.Put(t)
		}
	}
}

// cannotBeDisplaced is the opposite of canBeDisplaced. It does nothing without that.
func (in *intent) cannotBeDisplaced() {
	for i, t := range in.slot.tallies {
		at := in.slot.index[i]
		if at == 0 {
			return
		}
		last := len(t.sleeping) - 1
		moved := t.sleeping[last]
		t.sleeping[at-1], moved.slot.index[i] = moved, at
		t.sleeping[last] = nil // lets the collector free the intent
		t.sleeping = t.sleeping[:last]
		if in.slot.index[i] = 0; last == 0 {
			t.ranking.Remove(t)
		}
	}
}

// ranking has tallies with sleeping intents. The tally with the most intents is first.
type ranking struct{ heap.Heap[*tally] }

// Before implements heap.Element.
func (t *tally) Before(other *tally) bool { return t.waiting > other.waiting }

// Place implements heap.Element.
func (t *tally) Place() *int { return &t.rank }

// above returns a sleeping intent of the tally with the most intents. It returns nil if that has no more
// than the share.
func (r ranking) above(share int) *intent {
	if len(r.Heap) == 0 || r.Heap[0].waiting <= share {
		return nil
	}
	first := r.Heap[0]
	return first.sleeping[len(first.sleeping)-1]
}
