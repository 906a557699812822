package transaction

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/belfry-mq/belfry/pkg/engine/store/internal/push"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// setFingerprints replaces the random bits of message ids by a hash of the transaction, for the
// messages whose transaction id came from the client. The ids stay UUIDs of version 7. When the same
// transaction is sent again, the statement finds its messages stored. The hash proves that this
// transaction stored them, because only the same operations have the same hash.
func setFingerprints(call *push.Call, tx *queue.Transaction) {
	if !call.Named {
		return
	}
	whole := hash(tx)
	for i := range call.Items {
		if call.Items[i].TransactionID == "" {
			continue
		}
		sum := sha256.Sum256(binary.BigEndian.AppendUint64(whole, uint64(i)))
		copy(call.IDs[i][8:], sum[:8])
		call.IDs[i][8] = call.IDs[i][8]&0x3f | 0x80 // the variant
	}
}

// nameItems creates transaction ids for items that have none, in a cycle with an ack under a lease.
// The ids are hashes of the cycle, so a repetition of the cycle has the same ids. Then the statement
// finds the messages of the first attempt.
func nameItems(items []queue.PushItem, tx *queue.Transaction) {
	whole := hash(tx)
	for i := range items {
		if items[i].TransactionID == "" {
			sum := sha256.Sum256(binary.BigEndian.AppendUint64(whole, uint64(i)))
			id := queue.ID(sum[16:])
			id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // version 8, and the variant
			items[i].TransactionID = id.String()
		}
	}
}

// sameFingerprint reports whether two message ids contain the same hash.
func sameFingerprint(a, b queue.ID) bool { return [8]byte(a[8:]) == [8]byte(b[8:]) }

// hash returns a hash of the operations. It is the same on every instance.
func hash(tx *queue.Transaction) []byte {
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
			add(push.VisibleAt.UTC().String(), string(push.Headers), push.Tenant)
			continue
		}
		ack := op.Ack
		add("ack", ack.PartitionID, ack.TransactionID, ack.Group, ack.LeaseID, ack.Error)
		binary.BigEndian.PutUint64(size[:], uint64(ack.Status))
		h.Write(size[:])
		if ack.RetryAfter != nil {
			add(ack.RetryAfter.String())
		}
		if ack.PauseGroup > 0 {
			add("pause", ack.PauseGroup.String())
		}
	}
	if tx.Cycle != nil {
		(&cycle{Cycle: tx.Cycle}).hash(add)
	}
	add("leases")
	add(tx.RequiredLeases...)
	return h.Sum(nil)
}
