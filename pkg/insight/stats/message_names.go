package stats

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var sqlMessagesNamed = sql.Query("insight/stats/messages_named")

// MessageName names a message.
type MessageName struct{ Queue, Partition, TransactionID string }

// NamedMessage is the state of a message with a name.
type NamedMessage struct {
	PartitionID queue.ID
	Status      Status
}

// Named returns the states of messages, by their names. Messages that do not exist are left out. It runs two statements, and reads a
// few rows for each message. Errors: CodeUnavailable.
func (r *Reader) Named(ctx context.Context, names []MessageName) (map[MessageName]NamedMessage, error) {
	var queues, partitions, transactionIDs []string
	for _, name := range names {
		queues, partitions, transactionIDs = append(queues, name.Queue), append(partitions, name.Partition), append(transactionIDs, name.TransactionID)
	}
	if len(names) == 0 {
		return nil, nil
	}
	var found []MessageName
	var chunk []*partitionScan
	_, err := postgres.Collect(ctx, r.pool, sqlMessagesNamed, func(row pgx.CollectableRow) (struct{}, error) {
		var number int64
		s := &partitionScan{maxTime: latest}
		err := row.Scan(&number, &s.key, &s.maxSeq)
		if err == nil {
			found, chunk = append(found, names[number-1]), append(chunk, s)
		}
		return struct{}{}, err
	}, queues, partitions, transactionIDs)
	if err != nil || len(found) == 0 {
		return nil, postgres.Wrapf(err, "finding messages by their names")
	}
	states := make(map[MessageName]NamedMessage, len(found))
	_, err = r.readBlocks(ctx, chunk, 1, "", func(m *Message, number int64) {
		if name := found[number-1]; m.TransactionID == name.TransactionID { // a message that was deleted meanwhile shows an older one
			states[name] = NamedMessage{m.PartitionID, m.Status}
		}
	})
	return states, postgres.Wrapf(err, "reading messages")
}
