package claim

import (
	"context"
	"hash/maphash"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/engine/store/internal/pipeline"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/scanfloor"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/wake"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlClaim        = sql.Query("engine/store/claim")
	sqlLeaseRelease = sql.Query("engine/store/lease_release")
)

// call is one claim: its request and its result.
type call struct {
	req    *queue.PopRequest
	target queue.Target
	// sent: an earlier try was sent, with an unknown outcome.
	sent bool

	result
	memory memory
	// ended is why the rights of the sender have ended; nil: they have not.
	ended error
	// scan is where the claim looked. released is what the lease of an earlier try held.
	scan     scanfloor.Scan
	released []queue.Ready
}

func newCall(req *queue.PopRequest, target queue.Target) *call {
	one := &call{req: req, target: target, memory: memory{of: req.Memory}}
	if !req.AutoAck {
		one.delivery.LeaseID = queue.NewID()
	}
	one.reset()
	return one
}

// reset makes the call as if it had not been tried. All tries have the same lease id.
func (one *call) reset() {
	one.memory.used = 0
	*one = call{
		req: one.req, target: one.target, sent: one.sent, memory: one.memory,
		result: result{delivery: queue.Delivery{Queue: one.req.Queue, Group: one.req.Group, LeaseID: one.delivery.LeaseID}},
	}
}

// reserve reserves the memory for the messages of a call. It returns false if that is not left, or the rights of the
// sender have ended. The call is not made then.
func (c *Claimer) reserve(one *call) bool {
	if one.ended = one.req.Valid(); one.ended != nil {
		return false
	}
	if one.memory.reserve(one.req.Batch, c.sizes.estimate(one.req.Queue)) {
		return true
	}
	c.Metrics.noMemory.Inc()
	return false
}

// refusal returns why the messages of a call are not delivered although they can be opened, or nil.
func (one *call) refusal() error {
	if one.memory.full {
		return queue.MemoryFull()
	}
	return one.ended
}

// queue adds the claim to b. A claim of one partition needs no scan floors. alone: the transaction makes no
// other claim, and locks nothing after it.
func (c *Claimer) queue(b *pgx.Batch, one *call, alone bool) {
	one.sent = true
	if one.target.Partition == 0 {
		one.scan = c.Floors.Begin(one.target.Group)
	}
	lease := pgtype.UUID{Bytes: one.delivery.LeaseID, Valid: !one.delivery.LeaseID.IsZero()}
	b.Queue(sqlClaim, one.target.Group, partitionArg(one.target), int64(one.req.Partitions), int64(one.req.Batch), lease,
		one.scan.Due, one.scan.Next, one.scan.Move, int64(one.target.Epoch), min(c.MaxBytes, one.memory.bytesLeft()),
		alone && one.req.Partitions <= 1)
}

// send makes claims in one pipeline. The lease of an earlier try is released first: nothing else
// would release it before it ends. The claims are one transaction, and its last claim decides whether the commit waits
// for the disk.
func (c *Claimer) send(ctx context.Context, send pipeline.SendFunc, calls []*call) error {
	b := &pgx.Batch{}
	calls = slices.SortedStableFunc(slices.Values(calls), func(a, b *call) int { return consumes(a.req) - consumes(b.req) })
	var repeated []*call
	for _, one := range calls {
		if one.sent {
			one.reset()
		}
		if one.sent && !one.req.AutoAck {
			b.Queue(sqlLeaseRelease, one.delivery.LeaseID)
			repeated = append(repeated, one)
		}
	}
	for _, one := range calls {
		c.queue(b, one, len(calls) == 1)
	}
	err := send(ctx, b, func(results pgx.BatchResults) error {
		for _, one := range repeated {
			var err error
			if one.released, err = wake.ReadReadyResult(results, "releasing the lease of an earlier try"); err != nil {
				return err
			}
		}
		for _, one := range calls {
			if err := c.readResult(results, one); err != nil {
				return err
			}
		}
		return nil
	})
	if postgres.IsUnconfirmed(err) {
		for _, one := range calls {
			c.giveBackUnsafe(ctx, one)
		}
	}
	return err
}

// giveBackUnsafe undoes a consumption that a failover can lose: its messages would be delivered twice.
func (c *Claimer) giveBackUnsafe(ctx context.Context, one *call) {
	if len(one.delivery.Messages) == 0 {
		return
	}
	if err := c.giveBack(ctx, one); err != nil {
		c.Log.Warn("Messages whose delivery the synchronous standbys did not confirm were not given back.", zap.String("queue", one.req.Queue), zap.Error(err))
	}
}

// readResult reads the next result of a pipeline, which is that of the call.
func (c *Claimer) readResult(results pgx.BatchResults, one *call) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	if err := c.read(rows, one); err != nil {
		return err
	}
	one.memory.trim()
	if n := len(one.delivery.Messages); n > 0 {
		c.sizes.learn(one.req.Queue, one.memory.used/n)
	}
	one.delivery.ReceivedAt = time.Now()
	return nil
}

// messageSizes are the sizes of the messages that were delivered lately, by queue. Two queues may share
// an entry: it is an estimate.
type messageSizes struct {
	seed   maphash.Seed
	recent [1024]atomic.Int64
}

// firstSize is the estimate for a queue of which nothing was delivered.
const firstSize = 1024

func newMessageSizes() *messageSizes { return &messageSizes{seed: maphash.MakeSeed()} }

func (s *messageSizes) of(queueName string) *atomic.Int64 {
	return &s.recent[maphash.String(s.seed, queueName)%uint64(len(s.recent))]
}

// estimate returns the expected size of a message.
func (s *messageSizes) estimate(queueName string) int {
	return max(firstSize, int(s.of(queueName).Load()))
}

// learn notes the mean size of the messages of a delivery. The estimate rises at once and falls slowly.
func (s *messageSizes) learn(queueName string, mean int) {
	recent := s.of(queueName)
	old := recent.Load()
	recent.Store(max(int64(mean), old-old/8))
}

// memory is what a call has reserved of the memory of its request.
type memory struct {
	of queue.AnswerMemory // nil: not bounded
	// reserved is in bytes of messages, and so is used, which the messages of the result have.
	reserved, used int
	// full: no room was left.
	full bool
}

// reserve reserves the memory for a message of the given size, and for as many of n messages as a pop
// should deliver now. It returns false if nothing is left.
func (m *memory) reserve(n, size int) bool {
	if m.of == nil {
		return true
	}
	want := max(size, min(n*size, int(m.of.AnswerBytesLeft())))
	if m.full = !m.of.TakeAnswer(want); !m.full {
		m.reserved = want
	}
	return !m.full
}

// bytesLeft returns how many bytes the claim should deliver.
func (m *memory) bytesLeft() int64 {
	if m.of == nil {
		return math.MaxInt64
	}
	return max(int64(m.reserved), m.of.AnswerBytesLeft())
}

// use reserves more memory if a message of n bytes exceeds what is reserved, and returns false if it is
// not left.
func (m *memory) use(n int) bool {
	if m.of == nil {
		return true
	}
	m.used += n
	if more := m.used - m.reserved; more > 0 && !m.full {
		if m.full = !m.of.TakeAnswer(more); !m.full {
			m.reserved += more
		}
	}
	return !m.full
}

// trim returns what is reserved and not used.
func (m *memory) trim() {
	if unused := m.reserved - m.used; unused > 0 {
		m.of.ReturnAnswer(unused)
		m.reserved = m.used
	}
}

// free returns everything.
func (m *memory) free() {
	m.used = 0
	m.trim()
}
