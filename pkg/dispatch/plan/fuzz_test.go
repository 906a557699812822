package plan_test

import (
	"testing"

	"github.com/belfry-mq/belfry/pkg/dispatch/plan"
)

// The encoded sizes of an intent and of a candidate.
const (
	intentBytes    = 3
	candidateBytes = 3
)

// sceneOf reads any bytes as a scene: rotate, the number of intents, the intents, and
// candidates to the end. It ignores an incomplete intent or candidate at the end.
func sceneOf(data []byte) scene {
	var s scene
	if len(data) < 2 {
		return s
	}
	count := int(data[1])
	s.rotate, data = uint64(data[0]), data[2:]
	for ; len(s.intents) < count && len(data) >= intentBytes; data = data[intentBytes:] {
		s.intents = append(s.intents, plan.Intent{
			Key:        plan.Key{Group: int64(data[0] % 4), Partition: max(0, int64(data[0]>>2%16)-8)},
			Partitions: int(data[1]%8) - 1,
			Deadline:   at(int(data[2]%8) - 1),
		})
	}
	for ; len(data) >= candidateBytes; data = data[candidateBytes:] {
		c := plan.Candidate{
			Group: int64(data[0] % 4), Partition: int64(data[0] >> 2 % 16), Depth: int64(data[1] % 4), ReadyAt: at(int(data[1]>>2%8) - 6),
		}
		// Half of the candidates have no flag.
		if flags := data[2]; flags >= 128 {
			c.Leased, c.WindowOpen, c.Delayed, c.Paused = flags&1 > 0, flags&2 > 0, flags&4 > 0, flags&8 > 0
		}
		s.candidates = append(s.candidates, c)
	}
	return s
}

func FuzzAssign(f *testing.F) {
	f.Add([]byte(nil))
	f.Add([]byte{3, 0, 4, 9, 0, 4, 9, 0})                              // a repeated candidate, no intent
	f.Add([]byte{1, 2, 0, 2, 5, 1, 0, 9, 4, 2})                        // two intents, no candidate
	f.Add([]byte{0, 1, 0, 7, 5, 1, 4, 1, 0, 8, 1, 0, 12, 3, 0})        // one intent wants many
	f.Add([]byte{7, 2, 36, 2, 5, 1, 0, 2, 3, 1, 4, 3, 0, 8, 3, 0})     // the second intent may take the partition that the first intent names
	f.Add([]byte{0, 2, 0, 2, 0, 0, 0, 2, 1, 0, 4, 3, 0})               // both intents are expired
	f.Add([]byte{0, 1, 0, 2, 5, 0, 4, 30, 129, 8, 31, 130, 12, 30, 0}) // leased, open and due later
	for seed := range uint64(4) {
		data := []byte{byte(seed), byte(2 + 5*seed)}
		for i := range 40 + 60*seed {
			data = append(data, byte(i*i*31+seed*7))
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4096 {
			data = data[:4096] // the laws compare every pair, so larger scenes are slow
		}
		sceneOf(data).obey(t, uint64(len(data)))
	})
}
