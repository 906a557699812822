package stats

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlMessagePartitions   = sql.Query("insight/stats/message_partitions")
	sqlMessagePartitionsOf = sql.Query("insight/stats/message_partitions_of")
	sqlMessageBlock        = sql.Query("insight/stats/message_block")
	sqlMessageNamed        = sql.Query("insight/stats/message_named")
)

const (
	// scanPage bounds the partitions of one statement.
	scanPage = 1000
	// maxScans bounds the partitions from which one list reads messages.
	// maxMessages bounds the messages that one list reads.
	maxScans    = 10_000
	maxMessages = 100_000
	// minBlock is the smallest number of messages read from a partition at a time.
	minBlock = 4
	// maxRows bounds the rows of one statement while its blocks exceed minBlock.
	maxRows = 20_000
)

// latest bounds the instants of a filter from above.
var latest = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// partitionScan is the progress of reading one partition, newest message first.
type partitionScan struct {
	key int64
	// bound is an upper bound for the instants of the partition's messages in the list.
	bound time.Time
	// maxSeq is the highest seq to read. If it is nil, the newest message up to maxTime is the first.
	maxSeq  *int64
	maxTime time.Time
	// block is the number of messages to read next.
	block int
	// last is the oldest message read so far. done is true if no message is left to read.
	last Position
	done bool
}

// merger merges the messages of partitions, newest first.
type merger struct {
	reader *Reader
	filter MessageFilter
	// want is the number of messages to find: Limit + Offset.
	want int
	// unopened are the partitions from which no message was read yet, ordered by bound.
	// opened are the other partitions.
	unopened []*partitionScan
	opened   []*partitionScan
	// found holds at most want+1 matching messages, newest first.
	found        []Message
	messagesRead int
}

// merge returns the newest Offset+Limit matching messages and whether there are more.
func (r *Reader) merge(ctx context.Context, queues []int64, filter MessageFilter) (found []Message, more bool, err error) {
	m := &merger{reader: r, filter: filter, want: filter.Limit + filter.Offset}
	if m.unopened, err = r.scans(ctx, queues, filter); err != nil {
		return nil, false, err
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		chunk := m.next()
		if len(chunk) == 0 {
			break
		}
		if err := m.read(ctx, chunk); err != nil {
			return nil, false, err
		}
		if len(m.opened) > maxScans || m.messagesRead > maxMessages {
			return nil, false, queue.Invalidf("this list would read more than %d partitions or more than %d messages: "+
				"name a queue or a partition, or choose a later to, a later from or another status", maxScans, maxMessages)
		}
	}
	more = len(m.found) > m.want
	return m.found[:min(m.want, len(m.found))], more, nil
}

// named returns the partition of the filter, to be read from the message with the transaction id on. It returns none without such a
// message.
func (r *Reader) named(ctx context.Context, queues []int64, filter MessageFilter) ([]*partitionScan, error) {
	return postgres.Collect(ctx, r.pool, sqlMessageNamed, func(row pgx.CollectableRow) (*partitionScan, error) {
		s := &partitionScan{maxTime: latest}
		return s, row.Scan(&s.key, &s.bound, &s.maxSeq)
	}, queues, filter.Partition, filter.TransactionID)
}

// scans returns at most maxScans+1 partitions that may hold a matching message, ordered by
// bound.
func (r *Reader) scans(ctx context.Context, queues []int64, filter MessageFilter) ([]*partitionScan, error) {
	if filter.TransactionID != "" {
		return r.named(ctx, queues, filter)
	}
	to := latest
	if !filter.To.IsZero() {
		to = filter.To
	}
	after := filter.After
	if after != nil && after.at.Before(to) {
		to = after.at
	} else if after != nil && after.at.After(to) {
		after = nil // To excludes every message up to After
	}
	from := filter.From
	if from.Before(earliest) {
		from = earliest
	}
	statement, keys, more := sqlMessagePartitions, queues, []any(nil)
	if w := filter.Window; w != nil {
		statement, keys, more = sqlMessagePartitionsOf, w.partitions, []any{queues}
	}
	args := append([]any{keys, filter.Partition, from, to, int64(maxScans + 1), string(filter.Status)}, more...)
	return postgres.Collect(ctx, r.pool, statement, func(row pgx.CollectableRow) (*partitionScan, error) {
		s := &partitionScan{maxTime: to}
		if err := row.Scan(&s.key, &s.bound); err != nil {
			return nil, err
		}
		if after != nil && s.key == after.partition {
			before := after.seq - 1
			s.maxSeq = &before
		} else if after != nil && s.key > after.partition {
			// An earlier page listed this partition's messages of the same instant.
			s.maxTime = to.Add(-time.Microsecond)
		}
		return s, nil
	}, args...)
}

// next returns the partitions to read next. It opens partitions while their bound is not
// older than the last read messages of the opened partitions. Otherwise it returns opened
// partitions. It returns none when the list is complete.
func (m *merger) next() []*partitionScan {
	var worst Position // the last message of a full list
	full := len(m.found) > m.want
	if full {
		worst = m.found[m.want].position
	}
	var more []*partitionScan
	var newest time.Time
	for _, s := range m.opened {
		if !s.done && (!full || newestFirst(s.last, worst) < 0) {
			more = append(more, s)
			if s.last.at.After(newest) {
				newest = s.last.at
			}
		}
	}
	if len(m.unopened) > 0 && (!full || !m.unopened[0].bound.Before(worst.at)) &&
		(len(more) == 0 || !m.unopened[0].bound.Before(newest)) {
		return m.open()
	}
	slices.SortFunc(more, func(a, b *partitionScan) int { return newestFirst(a.last, b.last) })
	return more[:min(len(more), scanPage)]
}

// open moves partitions from unopened to opened and returns them.
func (m *merger) open() []*partitionScan {
	n := min(len(m.unopened), scanPage, max(m.want+1, len(m.opened)))
	var chunk []*partitionScan
	chunk, m.unopened = m.unopened[:n:n], m.unopened[n:]
	for _, s := range chunk {
		s.block = min(max(minBlock, 2*m.want/n), m.want+1)
	}
	m.opened = append(m.opened, chunk...)
	return chunk
}

// read reads the next block of each partition of chunk.
func (m *merger) read(ctx context.Context, chunk []*partitionScan) error {
	block := 0
	for _, s := range chunk {
		block = max(block, s.block)
	}
	block = max(minBlock, min(block, maxRows/len(chunk)))
	read := make([]int, len(chunk))
	rows, err := m.reader.readBlocks(ctx, chunk, block, m.filter.Status, func(message *Message, number int64) {
		s := chunk[number-1]
		message.position.partition = s.key
		s.last = message.position
		read[number-1]++
	})
	if err != nil {
		return err
	}
	for i, s := range chunk {
		before := s.last.seq - 1
		s.maxSeq, s.block = &before, 2*block
		s.done = read[i] < block || s.last.at.Before(m.filter.From) || m.filter.TransactionID != ""
	}
	m.add(rows)
	return nil
}

// readBlocks reads at most block messages of each partition of chunk. It calls each for every message, with the number of its
// partition in the chunk, from 1.
func (r *Reader) readBlocks(ctx context.Context, chunk []*partitionScan, block int, status Status, each func(m *Message, number int64)) ([]Message, error) {
	keys, maxSeqs, maxTimes := make([]int64, len(chunk)), make([]*int64, len(chunk)), make([]time.Time, len(chunk))
	for i, s := range chunk {
		keys[i], maxSeqs[i], maxTimes[i] = s.key, s.maxSeq, s.maxTime
	}
	return postgres.Collect(ctx, r.pool, sqlMessageBlock, func(row pgx.CollectableRow) (Message, error) {
		message, number, err := scanMessage(row)
		if err == nil {
			each(&message, number)
		}
		return message, err
	}, keys, maxSeqs, maxTimes, int64(block), string(status))
}

// matches applies the parts of the filter that message_block does not.
func (f *MessageFilter) matches(m *Message) bool {
	return !m.CreatedAt.Before(f.From) && (f.Status == "" || m.Status == f.Status) && (f.TransactionID == "" || m.TransactionID == f.TransactionID)
}

// add merges rows into found.
func (m *merger) add(rows []Message) {
	m.messagesRead += len(rows)
	for i := range rows {
		if message := &rows[i]; m.filter.matches(message) {
			m.found = append(m.found, *message)
		}
	}
	slices.SortFunc(m.found, func(a, b Message) int { return newestFirst(a.position, b.position) })
	m.found = m.found[:min(len(m.found), m.want+1)]
}

// scanMessage returns a message and the number of its partition in the chunk, from 1.
func scanMessage(row pgx.CollectableRow) (m Message, number int64, err error) {
	err = row.Scan(&number, &m.position.seq, &m.CreatedAt, &m.ID, &m.TransactionID, (*zeronull.UUID)(&m.TraceID),
		(*zeronull.Text)(&m.ProducerSub), (*[]byte)(&m.Headers), &m.PartitionID, &m.Partition, &m.queueKey, &m.dead, &m.queueMode, &m.queueDone,
		(*zeronull.Timestamptz)(&m.LeasedUntil), &m.Groups, &m.DoneBy, (*zeronull.Timestamptz)(&m.VisibleAt))
	m.position.at = m.CreatedAt
	m.setStatus()
	return m, number, err
}
