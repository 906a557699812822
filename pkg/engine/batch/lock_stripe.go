package batch

// stripeBits sets the number of stripes. An operation on one partition shares one by chance with 7 % of
// the operations on 10,000 partitions. Two operations on 10,000 partitions share a stripe almost always.
// So they leave one after the other. Of those that wait, only the oldest wants its stripes. So together
// they hold up at most 15 % of the operations on one partition.
const stripeBits = 17

// LockStripe is a hash of a key. Two batches in flight never share a stripe.
type LockStripe uint32

// LockStripeOf returns the stripe of a key.
func LockStripeOf(key int64) LockStripe {
	// The upper bits of a multiplication by the golden ratio spread consecutive keys evenly.
	return LockStripe(uint64(key) * 0x9e3779b97f4a7c15 >> (64 - stripeBits))
}

// stripeSet is a set of stripes.
type stripeSet [1 << stripeBits / 64]uint64

func (s *stripeSet) add(stripes []LockStripe) {
	for _, l := range stripes {
		s[l/64] |= 1 << (l % 64)
	}
}

func (s *stripeSet) remove(stripes []LockStripe) {
	for _, l := range stripes {
		s[l/64] &^= 1 << (l % 64)
	}
}

func (s *stripeSet) hasAny(stripes []LockStripe) bool {
	for _, l := range stripes {
		if s[l/64]&(1<<(l%64)) != 0 {
			return true
		}
	}
	return false
}
