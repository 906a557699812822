package stats

import (
	"context"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlPlaces      = sql.Query("insight/stats/group_places")
	sqlPlacesNamed = sql.Query("insight/stats/group_places_named")
	sqlQueueGroup  = sql.Query("insight/stats/queue_group")
	sqlSeekPreview = sql.Query("insight/stats/seek_preview")
)

const (
	// maxExamined is how many cursors one request for a list of places examines.
	maxExamined = 1000
	// MaxTies is how many cursors with the same ready_at a list can skip.
	MaxTies = 10_000
	// maxSought is how many partitions one statement of the preview of a seek examines. A seek to an instant needs a search
	// in each partition, so a statement examines only maxSearched. seekBudget is how long a preview examines. maxGaps is how
	// many messages the preview counts in a partition with gaps of deleted messages.
	maxSought, maxSearched, maxGaps = 1000, 250, 10_000
	seekBudget                      = 5 * time.Second
)

// PlaceList says which Places of a group are listed, and in which order.
type PlaceList string

// The lists of places.
const (
	// PlacesDue are the partitions with a message for the next pop. The partition that has been due the longest is first.
	PlacesDue PlaceList = "due"
	// PlacesLeased are the partitions with a live lease, ordered by the end of the lease.
	PlacesLeased PlaceList = "leased"
	// PlacesResting are the partitions whose messages wait for an instant, ordered by that instant.
	PlacesResting PlaceList = "resting"
	// PlacesNamed are all partitions, ordered by name.
	PlacesNamed PlaceList = "name"
)

// PlaceStart is where a list of places starts. The zero PlaceStart is the beginning.
type PlaceStart struct {
	Start // for PlacesNamed
	// The other lists continue after the first Tie places with this ReadyAt.
	ReadyAt time.Time
	Tie     int64
}

// PlaceQuery chooses places. Limit is the maximum number of places.
type PlaceQuery struct {
	List  PlaceList
	From  PlaceStart
	Limit int
}

// Place is the cursor of a group in a partition, with its state.
type Place struct {
	Partition string
	ID        queue.ID
	Paused    bool
	// ReadyAt is the earliest instant for a pop to return a message. It is zero if no instant is set.
	ReadyAt time.Time
	// Lag counts the unfinished messages. Age is the age of the oldest unfinished message.
	Lag int64
	Age time.Duration
	// Lease is the id of the live lease, or zero. LeaseUntil is its end. Held counts the messages that it covers.
	// LeasedAt is its start by the clock of the instance that took it. LeasedAt is zero for a lease of a SQL
	// consumer, because the id of that lease contains no instant.
	Lease                queue.ID
	LeaseUntil, LeasedAt time.Time
	Held                 int64
	// Deliveries and Failures count for the first unfinished message.
	Deliveries, Failures int64
	Consumed, Expired    int64
	ConsumedAt           time.Time
	// Cause says why the messages wait for an instant: retry, delay, window or blocked. It is empty if the cause is unknown.
	// A place with the cause blocked has no ReadyAt.
	Cause string
	// StartsAt is when the subscription of the group starts in this partition. It is zero if it has started.
	StartsAt time.Time

	tie int64
}

// leasedAt returns the instant in the id of a lease. Only a UUID of version 7 contains an instant.
func leasedAt(id queue.ID) time.Time {
	u := uuid.UUID(id)
	if u.Version() != 7 {
		return time.Time{}
	}
	sec, nsec := u.Time().UnixTime()
	return time.Unix(sec, nsec)
}

// Places is a part of the places of a group.
type Places struct {
	List []Place
	// Next is where the list continues, or nil at its end.
	Next *PlaceStart
	// Incomplete is true if more than MaxTies places have the same ReadyAt. Then the list cannot continue.
	Incomplete bool
}

// Beginnings are the beginnings of three lists of places, and what is paused.
type Beginnings struct {
	Due, Leased, Resting Places
	QueuePaused, Paused  bool
}

// Beginnings returns the beginnings of the lists of a group of one queue, limit places each. The cost does not grow
// with the partitions or the messages. Errors: CodeNotFound for an unknown queue or group, CodeUnavailable.
func (g *Groups) Beginnings(ctx context.Context, queueName, group string, limit int) (out Beginnings, err error) {
	found, err := g.find(ctx, queueName, group)
	key := found.group
	out.QueuePaused, out.Paused = found.queuePaused, found.paused
	if err == nil {
		out.Due, err = g.byInstant(ctx, key, PlaceQuery{List: PlacesDue, Limit: limit})
	}
	if err == nil {
		out.Leased, err = g.byInstant(ctx, key, PlaceQuery{List: PlacesLeased, Limit: limit})
	}
	if err == nil {
		out.Resting, err = g.byInstant(ctx, key, PlaceQuery{List: PlacesResting, Limit: limit})
	}
	return out, postgres.Wrapf(err, "reading group %q of queue %q", group, queueName)
}

// foundGroup has the keys of a group and its queue. joining: cursors in older partitions are still being made.
type foundGroup struct {
	queue, group                 int64
	joining, paused, queuePaused bool
}

// find returns a group of a queue.
func (g *Groups) find(ctx context.Context, queueName, group string) (found foundGroup, err error) {
	q, err := New(g.pool).queue(ctx, queueName)
	if err != nil {
		return found, err
	}
	found.queue, found.queuePaused = q.key, q.Paused
	err = g.pool.ScanRow(ctx, []any{&found.group, &found.joining, &found.paused}, sqlQueueGroup, q.key, group)
	if postgres.IsNoRows(err) {
		err = &queue.Error{Code: queue.CodeNotFound, Message: "Consumer group not found"}
	}
	return found, err
}

// Places returns a part of the places of a group. PlacesLeased and PlacesResting examine at most 1,000
// cursors. So a part can have fewer places than the limit although the list continues. Errors: CodeNotFound,
// CodeUnavailable.
func (g *Groups) Places(ctx context.Context, queueName, group string, ask PlaceQuery) (out Places, err error) {
	found, err := g.find(ctx, queueName, group)
	switch {
	case err != nil:
	case ask.List == PlacesNamed:
		out, err = g.byName(ctx, found.queue, found.group, ask.From.Start, ask.Limit)
	default:
		out, err = g.byInstant(ctx, found.group, ask)
	}
	return out, postgres.Wrapf(err, "listing the places of group %q in queue %q", group, queueName)
}

// causeBlocked is the cause of a resting place whose partition is blocked for the group.
const causeBlocked = "blocked"

func (g *Groups) byInstant(ctx context.Context, key int64, ask PlaceQuery) (out Places, err error) {
	var examined int64
	var last PlaceStart
	most := int64(maxExamined)
	if ask.List == PlacesDue {
		most = int64(ask.Limit)
	}
	_, err = postgres.Collect(ctx, g.pool, sqlPlaces, func(row pgx.CollectableRow) (none struct{}, err error) {
		var p Place
		var now time.Time
		var paused pgtype.Bool
		err = row.Scan(&examined, (*zeronull.Timestamptz)(&last.ReadyAt), (*zeronull.Int8)(&last.Tie), (*zeronull.Timestamptz)(&p.ReadyAt),
			(*zeronull.Int8)(&p.tie), (*zeronull.Text)(&p.Partition), (*zeronull.UUID)(&p.ID), &paused, (*zeronull.Int8)(&p.Lag),
			(*postgres.Seconds)(&p.Age), (*zeronull.UUID)(&p.Lease), (*zeronull.Timestamptz)(&p.LeaseUntil), (*zeronull.Int8)(&p.Held),
			(*zeronull.Int8)(&p.Deliveries), (*zeronull.Int8)(&p.Failures), (*zeronull.Int8)(&p.Consumed), (*zeronull.Timestamptz)(&p.ConsumedAt),
			(*zeronull.Int8)(&p.Expired), (*zeronull.Text)(&p.Cause), &now)
		if err != nil || p.Partition == "" && p.ID.IsZero() {
			return none, err
		}
		p.Paused = paused.Bool
		p.settle(now)
		out.List = append(out.List, p)
		return none, nil
	}, key, string(ask.List), instantOrNull(ask.From.ReadyAt), ask.From.Tie, int64(ask.Limit), most)
	if n := len(out.List); n == ask.Limit {
		last = PlaceStart{ReadyAt: out.List[n-1].ReadyAt, Tie: out.List[n-1].tie}
	}
	for i := range out.List { // nothing but an operator makes a blocked place ready
		if out.List[i].Cause == causeBlocked {
			out.List[i].ReadyAt = time.Time{}
		}
	}
	switch more := examined == most || len(out.List) == ask.Limit; {
	case more && last.Tie > MaxTies:
		out.Incomplete = true
	case more:
		out.Next = &last
	}
	return out, err
}

// settle clears the lease if it has expired. Otherwise it sets LeasedAt.
func (p *Place) settle(now time.Time) {
	if p.LeaseUntil.After(now) {
		p.LeasedAt = leasedAt(p.Lease)
		return
	}
	p.Lease, p.LeaseUntil, p.Held = queue.ID{}, time.Time{}, 0
}

func (g *Groups) byName(ctx context.Context, queueKey, key int64, from Start, limit int) (out Places, err error) {
	var examined int
	var last string
	_, err = postgres.Collect(ctx, g.pool, sqlPlacesNamed, func(row pgx.CollectableRow) (none struct{}, err error) {
		var p Place
		var now time.Time
		var deliveries pgtype.Int8
		err = row.Scan((*zeronull.Timestamptz)(&p.ReadyAt), &p.Partition, &p.ID, &p.Paused, (*zeronull.Int8)(&p.Lag), (*postgres.Seconds)(&p.Age),
			(*zeronull.UUID)(&p.Lease), (*zeronull.Timestamptz)(&p.LeaseUntil), (*zeronull.Int8)(&p.Held), &deliveries,
			(*zeronull.Int8)(&p.Failures), (*zeronull.Int8)(&p.Consumed), (*zeronull.Timestamptz)(&p.ConsumedAt), (*zeronull.Int8)(&p.Expired),
			(*zeronull.Timestamptz)(&p.StartsAt), &now)
		examined, last = examined+1, p.Partition
		if err != nil || !deliveries.Valid { // the group has no cursor in the partition
			return none, err
		}
		p.Deliveries = deliveries.Int64
		p.settle(now)
		out.List = append(out.List, p)
		return none, nil
	}, key, queueKey, from.Name, from.After, int64(limit))
	if examined == limit {
		out.Next = &PlaceStart{Start: Start{Name: last, After: true}}
	}
	return out, err
}

// SeekTarget is the target of a seek: the end, or the instant At. If End is false and At is zero, the target is the
// beginning.
type SeekTarget struct {
	End bool
	At  time.Time
	// Partition limits the seek to one partition. Nil means all partitions.
	Partition *string
}

// SeekPreview describes the effect of a seek.
type SeekPreview struct {
	// Cursors counts the examined cursors. Leases counts their live leases, which the seek would end.
	Cursors, Leases int64
	// Again counts finished messages and dead letters that the group would receive again. Skipped counts unfinished
	// messages that the group would not receive.
	Again, Skipped int64
	// CountedAt is when the count began, by the clock of the database.
	CountedAt time.Time
	// AtLeast is true if there are more partitions or messages than were examined.
	AtLeast bool
	// Next is the name of the last examined partition if there may be more. The preview continues after it.
	Next *string
}

// SeekPart chooses the partitions of a preview: the first Limit partitions by name, after the name After. If Limit is 0, the
// number has no limit. If After is nil, the preview starts at the first partition.
type SeekPart struct {
	After *string
	Limit int
}

// PreviewSeek describes the effect of a seek on a part of the partitions, and changes nothing. It reads pages of 1,000
// partitions by name, or of 250 for a seek to an instant. It stops after all partitions, after 5 seconds, or when ctx ends.
// Errors: CodeNotFound, CodeUnavailable.
func (g *Groups) PreviewSeek(ctx context.Context, queueName, group string, to SeekTarget, part SeekPart) (out SeekPreview, err error) {
	found, err := g.find(ctx, queueName, group)
	at, size := pgtype.Timestamptz{Valid: true, Time: to.At}, maxSought
	switch {
	case to.End:
		at.InfinityModifier = pgtype.Infinity
	case to.At.IsZero():
		at.InfinityModifier = pgtype.NegativeInfinity
	default:
		size = maxSearched
	}
	left := part.Limit
	if left <= 0 {
		left = math.MaxInt
	}
	after := part.After
	for more, began := true, time.Now(); err == nil && more; {
		var page SeekPreview
		var capped bool
		var last string
		err = g.pool.ScanRow(ctx, []any{&page.Cursors, &page.Again, &page.Skipped, &page.Leases, &capped, &more, &last, &page.CountedAt},
			sqlSeekPreview, found.queue, found.group, at, to.Partition, int64(min(size, left)), int64(maxGaps), after)
		out.add(&page)
		after, left = &last, left-size
		out.AtLeast = out.AtLeast || capped || found.joining
		if more && (left <= 0 || time.Since(began) > g.seekBudget) {
			out.AtLeast, out.Next = true, after
			break
		}
		if err == nil {
			err = ctx.Err()
		}
	}
	return out, postgres.Wrapf(err, "previewing a seek of group %q in queue %q", group, queueName)
}

// add adds the figures of a page.
func (s *SeekPreview) add(page *SeekPreview) {
	s.Cursors += page.Cursors
	s.Leases += page.Leases
	s.Again += page.Again
	s.Skipped += page.Skipped
	if s.CountedAt.IsZero() {
		s.CountedAt = page.CountedAt
	}
}
