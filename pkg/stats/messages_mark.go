package stats

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// Mark is where a message stands among all messages.
type Mark struct {
	at        time.Time
	partition int64
	seq       int64
}

// newestFirst orders places.
func newestFirst(a, b Mark) int {
	return cmp.Or(b.at.Compare(a.at), cmp.Compare(b.partition, a.partition), cmp.Compare(b.seq, a.seq))
}

// placeBytes is the length of a token before its encoding.
const placeBytes = 24

// Token writes a place as text, for ParseMark.
func (p Mark) Token() string {
	b := make([]byte, 0, placeBytes)
	b = binary.BigEndian.AppendUint64(b, uint64(p.at.UnixMicro()))
	b = binary.BigEndian.AppendUint64(b, uint64(p.partition))
	b = binary.BigEndian.AppendUint64(b, uint64(p.seq))
	return base64.RawURLEncoding.EncodeToString(b)
}

// earliest is as far back as a place may lie: what Postgres can store.
var earliest = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)

// ParseMark reads a token. Errors: CodeInvalid.
func ParseMark(token string) (Mark, error) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil && len(b) == placeBytes {
		number := func(i int) int64 { return int64(binary.BigEndian.Uint64(b[8*i:])) }
		p := Mark{at: time.UnixMicro(number(0)).UTC(), partition: number(1), seq: number(2)}
		if p.at.After(earliest) && p.at.Year() < 10000 && p.partition > 0 && p.seq > 0 {
			return p, nil
		}
	}
	return Mark{}, queue.Invalidf("cursor is not one that an earlier answer gave as next: send that text unchanged")
}
