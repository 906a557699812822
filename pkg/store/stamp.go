package store

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// stampIDs puts a hash of the transaction in the place of the random bits of its
// message ids, for those messages whose transaction id is the caller's. They stay
// UUIDs of version 7. Whoever sends the same transaction again finds its messages
// stored, and knows by the hash that they are not somebody else's: only the same
// operations have it, and they may be stored once.
func stampIDs(p *push, tx *queue.Transaction) {
	if !p.named {
		return
	}
	whole := transactionHash(tx)
	for i := range p.items {
		if p.items[i].TransactionID == "" {
			continue
		}
		one := sha256.Sum256(binary.BigEndian.AppendUint64(whole, uint64(i)))
		copy(p.ids[i][8:], one[:8])
		p.ids[i][8] = p.ids[i][8]&0x3f | 0x80 // the variant
	}
}

// sameStamp says whether two message ids hold the same hash.
func sameStamp(a, b queue.ID) bool { return [8]byte(a[8:]) == [8]byte(b[8:]) }

// transactionHash is the same for the same operations, whoever computes it.
func transactionHash(tx *queue.Transaction) []byte {
	h := sha256.New()
	var size [8]byte
	add := func(texts ...string) {
		for _, text := range texts {
			binary.BigEndian.PutUint64(size[:], uint64(len(text)))
			h.Write(size[:]) // a hash never returns an error
			h.Write([]byte(text))
		}
	}
	for _, op := range tx.Operations {
		if push := op.Push; push != nil {
			add("push", push.Queue, push.Partition, push.TransactionID, push.TraceID.String(), string(push.Payload), push.ProducerSub)
			add(push.VisibleAt.UTC().String())
			continue
		}
		ack := op.Ack
		add("ack", ack.PartitionID, ack.TransactionID, ack.Group, ack.LeaseID, ack.Error)
		binary.BigEndian.PutUint64(size[:], uint64(ack.Status))
		h.Write(size[:])
	}
	add("leases")
	add(tx.RequiredLeases...)
	return h.Sum(nil)
}
