package spool

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// A message that is read from the file has the same bytes as the pushed message. Its delay counts
// from the push.
func TestRecordsKeepMessages(t *testing.T) {
	sealer, err := seal.New(seal.Config{Key: setting.Secret(strings.Repeat("7", 64))})
	require.NoError(t, err)
	now := time.Now().UTC().Truncate(0)
	pushed := []queue.PushItem{
		{Queue: "q", Partition: "p", TransactionID: "1", TraceID: queue.NewID(), Headers: queue.Headers(`{"a":"b"}`), Payload: json.RawMessage(`{"b": 1, "a":"é"}`), ProducerSub: "anna"},
		{Queue: "r", Partition: "p", TransactionID: "1", Payload: json.RawMessage(`null`), Delay: time.Minute},
		{Queue: "q", Partition: "o", TransactionID: "2", Payload: json.RawMessage(`"confidential"`), VisibleAt: now.Add(time.Hour)},
	}
	for _, with := range []*seal.Sealer{nil, sealer} {
		records, err := pack(pushed, with, now)
		require.NoError(t, err)
		var got []queue.PushItem
		for _, r := range records {
			encoded, err := r.encode()
			require.NoError(t, err)
			require.Equal(t, with == nil && r.Queue == "q", strings.Contains(string(encoded), "confidential"))
			decoded, err := decode(encoded)
			require.NoError(t, err)
			for i := range decoded.Items {
				item, err := decoded.Items[i].unpack(decoded.Queue, with)
				require.NoError(t, err)
				got = append(got, item)
			}
		}
		later := pushed[1]
		later.Delay, later.VisibleAt = 0, now.Add(time.Minute)
		require.Equal(t, []queue.PushItem{pushed[0], pushed[2], later}, got)
	}
	sealed, err := pack(pushed, sealer, now)
	require.NoError(t, err)
	_, err = sealed[0].Items[0].unpack("q", nil)
	require.Error(t, err, "the key is needed")
}
