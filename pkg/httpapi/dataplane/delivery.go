package dataplane

import (
	"strconv"

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
		lease = wire.AppendID(nil, d.LeaseID)
	}
	group := wire.AppendString(nil, d.Group)
	first := d.Messages[0].Partition
	b = append(b, `{"success":true,"queue":`...)
	b = wire.AppendString(b, d.Queue)
	b = append(b, `,"partition":`...)
	b = wire.AppendString(b, first.Name)
	b = append(b, `,"partitionId":`...)
	b = wire.AppendID(b, first.ID)
	b = append(b, `,"leaseId":`...)
	b = append(b, lease...)
	b = append(b, `,"consumerGroup":`...)
	b = append(b, group...)
	b = append(b, `,"partitionsClaimed":`...)
	b = strconv.AppendInt(b, int64(d.Partitions), 10)
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
	b = append(b, `{"id":`...)
	b = wire.AppendID(b, m.ID)
	b = append(b, `,"transactionId":`...)
	b = wire.AppendString(b, m.TransactionID)
	b = append(b, `,"traceId":`...)
	b = wire.AppendID(b, m.TraceID)
	b = append(b, `,"data":`...)
	b = append(b, m.Payload...)
	b = append(b, `,"producerSub":`...)
	b = wire.AppendStringOrNull(b, m.ProducerSub)
	b = append(b, `,"createdAt":"`...)
	b = m.CreatedAt.UTC().AppendFormat(b, "2006-01-02T15:04:05.000000Z")
	b = append(b, `","partitionId":`...)
	b = wire.AppendID(b, m.Partition.ID)
	b = append(b, `,"partition":`...)
	b = wire.AppendString(b, m.Partition.Name)
	b = append(b, `,"leaseId":`...)
	b = append(b, lease...)
	b = append(b, `,"consumerGroup":`...)
	b = append(b, group...)
	b = append(b, `,"attempt":`...)
	b = strconv.AppendInt(b, int64(m.Attempt), 10)
	return append(b, '}')
}
