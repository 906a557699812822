package spool

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"time"

	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// record holds the messages of one push for one queue. It is encoded with gob, which ignores unknown
// fields.
type record struct {
	Queue string
	Items []item
	// Reason is the reason why the database refused the only item. It is set only in rejected
	// records.
	Reason string
	// At is the time when the push arrived. In a rejected record it is the time of the rejection.
	At time.Time
}

// item is one message.
type item struct {
	Partition, Tenant, TransactionID, ProducerSub string
	TraceID                                       queue.ID
	VisibleAt                                     time.Time
	Headers                                       queue.Headers
	// If Sealed is set, Payload is encrypted for a message with the id Seal.
	Payload []byte
	Sealed  bool
	Seal    queue.ID
}

// pack returns the records of a push, one for each queue, in the order of the items.
func pack(items []queue.PushItem, sealer *seal.Sealer, now time.Time) ([]*record, error) {
	var records []*record
	byQueue := map[string]*record{}
	for i := range items {
		pushed := &items[i]
		r := byQueue[pushed.Queue]
		if r == nil {
			r = &record{Queue: pushed.Queue, At: now}
			byQueue[pushed.Queue], records = r, append(records, r)
		}
		visible := pushed.VisibleAt
		if pushed.Delay > 0 {
			visible = now.Add(pushed.Delay)
		}
		packed := item{
			Partition: pushed.Partition, Tenant: pushed.Tenant, TransactionID: pushed.TransactionID, ProducerSub: pushed.ProducerSub, TraceID: pushed.TraceID,
			VisibleAt: visible, Payload: pushed.Payload, Headers: pushed.Headers,
		}
		if sealer.HasKey() {
			packed.Sealed, packed.Seal = true, queue.NewID()
			var err error
			if packed.Payload, err = sealer.Seal(pushed.Payload, packed.message(pushed.Queue)); err != nil {
				return nil, err
			}
		}
		r.Items = append(r.Items, packed)
	}
	return records, nil
}

func (i *item) message(queueName string) seal.Message {
	return seal.Message{Queue: queueName, Partition: i.Partition, ID: i.Seal}
}

// unpack returns the item as it was pushed. It fails if the payload cannot be decrypted.
func (i *item) unpack(queueName string, sealer *seal.Sealer) (queue.PushItem, error) {
	out := queue.PushItem{
		Queue: queueName, Partition: i.Partition, Tenant: i.Tenant, TransactionID: i.TransactionID, ProducerSub: i.ProducerSub, TraceID: i.TraceID,
		VisibleAt: i.VisibleAt, Payload: json.RawMessage(i.Payload), Headers: i.Headers,
	}
	if !i.Sealed {
		return out, nil
	}
	payload, err := sealer.Open(i.Payload, i.message(queueName))
	out.Payload = payload
	return out, err
}

// size returns the approximate number of bytes that the record needs in the file.
func (r *record) size() int64 {
	const overhead, perItem = 256, 64
	size := int64(overhead + len(r.Queue))
	for i := range r.Items {
		packed := &r.Items[i]
		size += int64(perItem + len(packed.Partition) + len(packed.Tenant) + len(packed.TransactionID) + len(packed.ProducerSub) + len(packed.Payload) + len(packed.Headers))
	}
	return size
}

func (r *record) encode() ([]byte, error) {
	var out bytes.Buffer
	err := gob.NewEncoder(&out).Encode(r)
	return out.Bytes(), err
}

func decode(b []byte) (*record, error) {
	r := &record{}
	return r, gob.NewDecoder(bytes.NewReader(b)).Decode(r)
}
