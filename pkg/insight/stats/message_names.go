package stats

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var sqlMessagesNamed = sql.Query("insight/stats/messages_named")

// MessageName names a message. Group is the group that NamedMessage.Unfinished is about, or empty.
type MessageName struct{ Queue, Partition, TransactionID, Group string }

// NamedMessage is the state of a message with a name.
type NamedMessage struct {
	PartitionID queue.ID
	Status      Status
	// Unfinished is true if the group has not finished the message.
	Unfinished bool
}

// Named returns the states of messages, by their names. Messages that do not exist are left out. It runs two statements, and reads a
// few rows for each message. Errors: CodeUnavailable.
func (r *Reader) Named(ctx context.Context, names []MessageName) (map[MessageName]NamedMessage, error) {
	var queues, partitions, transactionIDs, groups []string
	for _, name := range names {
		queues, partitions, transactionIDs = append(queues, name.Queue), append(partitions, name.Partition), append(transactionIDs, name.TransactionID)
		groups = append(groups, name.Group)
	}
	if len(names) == 0 {
		return nil, nil
	}
	var found []MessageName
	var unfinished []bool
	var chunk []*partitionScan
	_, err := postgres.Collect(ctx, r.pool, sqlMessagesNamed, func(row pgx.CollectableRow) (struct{}, error) {
		var number int64
		var open bool
		s := &partitionScan{maxTime: latest}
		err := row.Scan(&number, &s.key, &s.maxSeq, &open)
		if err == nil {
			found, unfinished, chunk = append(found, names[number-1]), append(unfinished, open), append(chunk, s)
		}
		return struct{}{}, err
	}, queues, partitions, transactionIDs, groups)
	if err != nil || len(found) == 0 {
		return nil, postgres.Wrapf(err, "finding messages by their names")
	}
	states := make(map[MessageName]NamedMessage, len(found))
	_, err = r.readBlocks(ctx, chunk, 1, "", func(m *Message, number int64) {
		if name := found[number-1]; m.TransactionID == name.TransactionID { // a message that was deleted meanwhile shows an older one
			states[name] = NamedMessage{m.PartitionID, m.Status, unfinished[number-1]}
		}
	})
	return states, postgres.Wrapf(err, "reading messages")
}
