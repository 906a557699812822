package when

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// Jitter returns the delay of one instant of a schedule. It is at least 0 and less than most, in whole microseconds. It
// depends only on the arguments, so all instances of all versions compute the same delay. If most is less than 1 µs, it
// returns 0.
func Jitter(name string, instant time.Time, most time.Duration) time.Duration {
	steps := most.Microseconds()
	if steps <= 0 {
		return 0
	}
	// The number has a fixed length. So two pairs of name and instant never have the same text.
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(name), uint64(instant.UnixMicro())))
	return time.Duration(binary.BigEndian.Uint64(sum[:8])%uint64(steps)) * time.Microsecond
}
