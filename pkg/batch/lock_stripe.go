package batch

// laneBits says how many lanes there are: so many that two operations on a few
// hundred partitions each seldom meet by chance.
const laneBits = 14

// LockStripe is something an operation must have for itself.
type LockStripe uint16

// LockStripeOf returns the lane of a key.
func LockStripeOf(key int64) LockStripe {
	// The upper bits of a multiplication by the golden ratio spread consecutive
	// keys evenly.
	return LockStripe(uint64(key) * 0x9e3779b97f4a7c15 >> (64 - laneBits))
}

// laneSet is a set of lanes.
type laneSet [1 << laneBits / 64]uint64

func (s *laneSet) add(lanes []LockStripe) {
	for _, l := range lanes {
		s[l/64] |= 1 << (l % 64)
	}
}

func (s *laneSet) remove(lanes []LockStripe) {
	for _, l := range lanes {
		s[l/64] &^= 1 << (l % 64)
	}
}

func (s *laneSet) hasAny(lanes []LockStripe) bool {
	for _, l := range lanes {
		if s[l/64]&(1<<(l%64)) != 0 {
			return true
		}
	}
	return false
}
