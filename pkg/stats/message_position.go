package stats

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// Position is the place of a message in the order of MessageList.
type Position struct {
	at        time.Time
	partition int64
	seq       int64
}

// newestFirst compares two positions: the newer one comes first.
func newestFirst(a, b Position) int {
	return cmp.Or(b.at.Compare(a.at), cmp.Compare(b.partition, a.partition), cmp.Compare(b.seq, a.seq))
}

// positionBytes is the length of a token before base64.
const positionBytes = 24

// Token returns the position as text for ParsePosition.
func (p Position) Token() string {
	b := make([]byte, 0, positionBytes)
	b = binary.BigEndian.AppendUint64(b, uint64(p.at.UnixMicro()))
	b = binary.BigEndian.AppendUint64(b, uint64(p.partition))
	b = binary.BigEndian.AppendUint64(b, uint64(p.seq))
	return base64.RawURLEncoding.EncodeToString(b)
}

// earliest bounds the instants of a filter or token from below. Postgres can store it.
var earliest = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)

// ParsePosition reads a token. Errors: CodeInvalid.
func ParsePosition(token string) (Position, error) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil && len(b) == positionBytes {
		number := func(i int) int64 { return int64(binary.BigEndian.Uint64(b[8*i:])) }
		p := Position{at: time.UnixMicro(number(0)).UTC(), partition: number(1), seq: number(2)}
		if p.at.After(earliest) && p.at.Year() < 10000 && p.partition > 0 && p.seq > 0 {
			return p, nil
		}
	}
	return Position{}, queue.Invalidf("cursor is not one that an earlier answer gave as next: send that text unchanged")
}
