package stats

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// lanePage is how many partitions one statement looks into, maxLanes how many
	// one list does, and maxLooks at how many messages.
	lanePage = 1000
	maxLanes = 10_000
	maxLooks = 100_000
	// minBlock is how many messages of a partition are read at least, and maxRows
	// bounds those of all partitions of a statement beyond that.
	minBlock = 4
	maxRows  = 20_000
)

// forever is after all messages; Postgres stores nothing later.
var forever = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// lane is a partition while its messages are merged with those of others.
type lane struct {
	key int64
	// bound is not before the newest of its messages that may be in the list.
	bound time.Time
	// upto is the highest seq to read from; nil: search for instant.
	upto    *int64
	instant time.Time
	// block is how many messages to read next.
	block int
	// last is the oldest message read, and done says that there are no more.
	last Mark
	done bool
}

// merger merges the messages of partitions, newest first.
type merger struct {
	reader *Reader
	filter MessageFilter
	// want is how many messages are asked for.
	want int
	// ahead are partitions not looked into yet, by bound; open are the others.
	ahead []*lane
	open  []*lane
	// found are messages that match, newest first, want+1 at most.
	found []Message
	looks int
}

// merge returns the newest messages that match, Limit behind Offset at most, and
// whether there are more.
func (r *Reader) merge(ctx context.Context, queues []int64, filter MessageFilter) (found []Message, more bool, err error) {
	m := &merger{reader: r, filter: filter, want: filter.Limit + filter.Offset}
	if m.ahead, err = r.lanes(ctx, queues, filter); err != nil {
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
		if err := m.look(ctx, chunk); err != nil {
			return nil, false, err
		}
		if len(m.open) > maxLanes || m.looks > maxLooks {
			return nil, false, queue.Invalidf("this list would look into more than %d partitions or at more than %d messages: "+
				"name a queue or a partition, or choose a later to, a later from or another status", maxLanes, maxLooks)
		}
	}
	more = len(m.found) > m.want
	return m.found[:min(m.want, len(m.found))], more, nil
}

// lanes returns the partitions that may matter, by bound, one more than may be
// looked into at most.
func (r *Reader) lanes(ctx context.Context, queues []int64, filter MessageFilter) ([]*lane, error) {
	to := forever
	if !filter.To.IsZero() {
		to = filter.To
	}
	after := filter.After
	if after != nil && after.at.Before(to) {
		to = after.at
	} else if after != nil && after.at.After(to) {
		after = nil // to alone decides
	}
	from := filter.From
	if from.Before(earliest) {
		from = earliest
	}
	return collect(ctx, r, "stats/message_lanes", func(row pgx.CollectableRow) (*lane, error) {
		l := &lane{instant: to}
		if err := row.Scan(&l.key, &l.bound); err != nil {
			return nil, err
		}
		if after != nil && l.key == after.partition {
			before := after.seq - 1
			l.upto = &before
		} else if after != nil && l.key > after.partition {
			// Those of the same instant were listed before.
			l.instant = to.Add(-time.Microsecond)
		}
		return l, nil
	}, queues, filter.Partition, from, to, int64(maxLanes+1), string(filter.Status))
}

// next chooses the partitions to look into: new ones while their bound is not
// older than what would be read else; none when the list is complete.
func (m *merger) next() []*lane {
	var worst Mark // the last one of a full list
	full := len(m.found) > m.want
	if full {
		worst = m.found[m.want].place
	}
	var more []*lane
	var newest time.Time
	for _, l := range m.open {
		if !l.done && (!full || newestFirst(l.last, worst) < 0) {
			more = append(more, l)
			if l.last.at.After(newest) {
				newest = l.last.at
			}
		}
	}
	if len(m.ahead) > 0 && (!full || !m.ahead[0].bound.Before(worst.at)) &&
		(len(more) == 0 || !m.ahead[0].bound.Before(newest)) {
		n := min(len(m.ahead), lanePage, max(m.want+1, len(m.open)))
		more, m.ahead = m.ahead[:n:n], m.ahead[n:]
		for _, l := range more {
			l.block = min(max(minBlock, 2*m.want/n), m.want+1)
		}
		m.open = append(m.open, more...)
		return more
	}
	slices.SortFunc(more, func(a, b *lane) int { return newestFirst(a.last, b.last) })
	return more[:min(len(more), lanePage)]
}

// look reads the next block of each partition of chunk.
func (m *merger) look(ctx context.Context, chunk []*lane) error {
	keys, upto, instants := make([]int64, len(chunk)), make([]*int64, len(chunk)), make([]time.Time, len(chunk))
	block := 0
	for i, l := range chunk {
		keys[i], upto[i], instants[i] = l.key, l.upto, l.instant
		block = max(block, l.block)
	}
	block = max(minBlock, min(block, maxRows/len(chunk)))
	read := make([]int, len(chunk))
	rows, err := collect(ctx, m.reader, "stats/message_block", func(row pgx.CollectableRow) (Message, error) {
		one, place, err := scanMessage(row)
		if err == nil {
			l := chunk[place-1]
			one.place.partition = l.key
			l.last = one.place
			read[place-1]++
		}
		return one, err
	}, keys, upto, instants, int64(block), string(m.filter.Status))
	if err != nil {
		return err
	}
	for i, l := range chunk {
		before := l.last.seq - 1
		l.upto, l.block = &before, 2*block
		l.done = read[i] < block || l.last.at.Before(m.filter.From)
	}
	m.looks += len(rows)
	for i := range rows {
		if m.matches(&rows[i]) {
			m.found = append(m.found, rows[i])
		}
	}
	slices.SortFunc(m.found, func(a, b Message) int { return newestFirst(a.place, b.place) })
	m.found = m.found[:min(len(m.found), m.want+1)]
	return nil
}

func (m *merger) matches(one *Message) bool {
	return !one.CreatedAt.Before(m.filter.From) && (m.filter.Status == "" || one.Status == m.filter.Status)
}

func scanMessage(row pgx.CollectableRow) (m Message, place int64, err error) {
	var s standing
	var trace *[16]byte
	var sub *string
	var leasedUntil *time.Time
	err = row.Scan(&place, &m.place.seq, &m.CreatedAt, (*[16]byte)(&m.ID), &m.TransactionID, &trace, &sub,
		(*[16]byte)(&m.PartitionID), &m.Partition, &m.queueKey, &s.dead, &s.queueMode, &s.queueDone, &leasedUntil,
		&s.groups, &s.doneBy)
	if trace != nil {
		m.TraceID = *trace
	}
	if sub != nil {
		m.ProducerSub = *sub
	}
	if leasedUntil != nil {
		s.leased, m.LeasedUntil = true, *leasedUntil
	}
	m.place.at, m.Groups, m.DoneBy = m.CreatedAt, s.groups, s.doneBy
	m.Status, m.QueueStatus = s.status()
	return m, place, err
}

func scanMode(row pgx.CollectableRow) (m Mode, err error) {
	err = row.Scan(&m.QueueMode, &m.Groups)
	return m, err
}
