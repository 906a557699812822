package dataplane

import (
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

func appendDelivery(d *queue.Delivery) []byte {
	size := 512
	for i := range d.Messages {
		size += 320 + len(d.Messages[i].Payload) + len(d.Messages[i].Partition.Name) + len(d.Group)
	}
	b := make([]byte, 0, size)
	lease := []byte(`""`)
	if !d.LeaseID.IsZero() {
		lease = wire.AppendID(nil, "", d.LeaseID)
	}
	group := wire.AppendString(nil, "", d.Group)
	first := d.Messages[0].Partition
	b = wire.AppendString(b, `{"success":true,"queue":`, d.Queue)
	b = wire.AppendString(b, `,"partition":`, first.Name)
	b = wire.AppendID(b, `,"partitionId":`, first.ID)
	b = append(b, `,"leaseId":`...)
	b = append(b, lease...)
	b = append(b, `,"consumerGroup":`...)
	b = append(b, group...)
	b = wire.AppendInt(b, `,"partitionsClaimed":`, d.Partitions)
	b = append(b, `,"messages":[`...)
	for i := range d.Messages {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendMessage(b, &d.Messages[i], lease, group)
	}
	return append(b, `]}`...)
}

// appendMessage appends one message. lease and group are JSON. Queen MQ has all
// members but attempt.
func appendMessage(b []byte, m *queue.Message, lease, group []byte) []byte {
	b = wire.AppendID(b, `{"id":`, m.ID)
	b = wire.AppendString(b, `,"transactionId":`, m.TransactionID)
	b = wire.AppendID(b, `,"traceId":`, m.TraceID)
	b = append(b, `,"data":`...)
	b = append(b, m.Payload...)
	b = wire.AppendStringOrNull(b, `,"producerSub":`, m.ProducerSub)
	b = append(b, `,"createdAt":"`...)
	b = m.CreatedAt.UTC().AppendFormat(b, "2006-01-02T15:04:05.000000Z")
	b = wire.AppendID(b, `","partitionId":`, m.Partition.ID)
	b = wire.AppendString(b, `,"partition":`, m.Partition.Name)
	b = append(b, `,"leaseId":`...)
	b = append(b, lease...)
	b = append(b, `,"consumerGroup":`...)
	b = append(b, group...)
	b = wire.AppendInt(b, `,"attempt":`, m.Attempt)
	return append(b, '}')
}
