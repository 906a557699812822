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

// claimCall is one claim: its request and its result.
type claimCall struct {
	req    *queue.PopRequest
	target queue.Target
	// sent: an earlier try was sent, with an unknown outcome.
	sent bool

	result
	memory memory
	// ended is the error for a sender whose rights have ended; nil: they have not.
	ended error
	// scan is where the claim looked. released is what the lease of an earlier try held.
	scan     scanfloor.Scan
	released []queue.Ready
}

func newCall(req *queue.PopRequest, target queue.Target) *claimCall {
	call := &claimCall{req: req, target: target, memory: memory{request: req.Memory}}
	if !req.AutoAck {
		call.delivery.LeaseID = queue.NewID()
	}
	call.reset()
	return call
}

// reset makes the call as if it had not been tried. All tries have the same lease id.
func (call *claimCall) reset() {
	call.memory.used = 0
	*call = claimCall{
		req: call.req, target: call.target, sent: call.sent, memory: call.memory,
		result: result{delivery: queue.Delivery{Queue: call.req.Queue, Group: call.req.Group, LeaseID: call.delivery.LeaseID}},
	}
}

// reserve reserves the memory for the messages of a call. It returns false if the memory is not available, or if
// the rights of the sender have ended. Then the call must not be made.
func (c *Claimer) reserve(call *claimCall) bool {
	if call.ended = call.req.Valid(); call.ended != nil {
		return false
	}
	if call.memory.reserve(call.req.Batch, c.sizes.estimate(call.req.Queue)) {
		return true
	}
	c.Metrics.noMemory.Inc()
	return false
}

// refusal returns why messages that can be decrypted are not delivered: the memory is full, or the rights of the
// sender have ended. Nil: they are delivered.
func (call *claimCall) refusal() error {
	if call.memory.full {
		return queue.MemoryFull()
	}
	return call.ended
}

// queue adds the claim to b. A claim of one partition needs no scan floors. alone: the transaction makes no
// other claim, and takes no lock after this one.
func (c *Claimer) queue(b *pgx.Batch, call *claimCall, alone bool) {
	call.sent = true
	if call.target.Partition == 0 {
		call.scan = c.Floors.Begin(call.target.Group)
	}
	lease := pgtype.UUID{Bytes: call.delivery.LeaseID, Valid: !call.delivery.LeaseID.IsZero()}
	b.Queue(sqlClaim, call.target.Group, partitionArg(call.target), int64(call.req.Partitions), int64(call.req.Batch), lease,
		call.scan.Due, call.scan.Next, call.scan.Move, int64(call.target.Epoch), min(c.MaxBytes, call.memory.bytesLeft()),
		alone && call.req.Partitions <= 1)
}

// send makes claims in one pipeline, which is one transaction. It first releases the leases of earlier tries:
// nothing else would release them before they expire. The last claim decides whether the commit waits for the
// disk, so the claims that consume come last.
func (c *Claimer) send(ctx context.Context, send pipeline.SendFunc, calls []*claimCall) error {
	b := &pgx.Batch{}
	calls = slices.SortedStableFunc(slices.Values(calls), func(a, b *claimCall) int { return consumes(a.req) - consumes(b.req) })
	var repeated []*claimCall
	for _, call := range calls {
		if call.sent {
			call.reset()
		}
		if call.sent && !call.req.AutoAck {
			b.Queue(sqlLeaseRelease, call.delivery.LeaseID)
			repeated = append(repeated, call)
		}
	}
	for _, call := range calls {
		c.queue(b, call, len(calls) == 1)
	}
	err := send(ctx, b, func(results pgx.BatchResults) error {
		for _, call := range repeated {
			var err error
			if call.released, err = wake.ReadReadyResult(results, "releasing the lease of an earlier try"); err != nil {
				return err
			}
		}
		for _, call := range calls {
			if err := c.readResult(results, call); err != nil {
				return err
			}
		}
		return nil
	})
	if postgres.IsUnconfirmed(err) {
		for _, call := range calls {
			c.giveBackUnsafe(ctx, call)
		}
	}
	return err
}

// giveBackUnsafe undoes a consumption that a failover can lose: its messages would be delivered twice.
func (c *Claimer) giveBackUnsafe(ctx context.Context, call *claimCall) {
	if len(call.delivery.Messages) == 0 {
		return
	}
	if err := c.giveBack(ctx, call); err != nil {
		c.Log.Warn("messages whose delivery the synchronous standbys did not confirm were not given back", zap.String("queue", call.req.Queue), zap.Error(err))
	}
}

// readResult reads the result of the call, which is the next one of the pipeline.
func (c *Claimer) readResult(results pgx.BatchResults, call *claimCall) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	if err := c.read(rows, call); err != nil {
		return err
	}
	call.memory.trim()
	if n := len(call.delivery.Messages); n > 0 {
		c.sizes.learn(call.req.Queue, call.memory.used/n)
	}
	call.delivery.ReceivedAt = time.Now()
	return nil
}

// messageSizes estimates the size of the messages of a queue from its latest deliveries. Two queues may share
// an entry.
type messageSizes struct {
	seed   maphash.Seed
	recent [1024]atomic.Int64
}

// minEstimate is the lowest estimate in bytes. It is the estimate for a queue without deliveries.
const minEstimate = 1024

func newMessageSizes() *messageSizes { return &messageSizes{seed: maphash.MakeSeed()} }

func (s *messageSizes) entry(queueName string) *atomic.Int64 {
	return &s.recent[maphash.String(s.seed, queueName)%uint64(len(s.recent))]
}

// estimate returns the expected size of a message.
func (s *messageSizes) estimate(queueName string) int {
	return max(minEstimate, int(s.entry(queueName).Load()))
}

// learn notes the mean size of the messages of a delivery. The estimate rises at once and falls slowly.
func (s *messageSizes) learn(queueName string, mean int) {
	recent := s.entry(queueName)
	old := recent.Load()
	recent.Store(max(int64(mean), old-old/8))
}

// memory is what a call has reserved of the memory of its request. All sizes are bytes of messages.
type memory struct {
	request queue.AnswerMemory // nil: not bounded
	// reserved is what the call has reserved, and used what its messages take.
	reserved, used int
	// full: a reservation was refused.
	full bool
}

// reserve reserves the memory for n messages of the given size, or for as many as the request should deliver
// now, at least one. It returns false if the memory for one message is not available.
func (m *memory) reserve(n, size int) bool {
	if m.request == nil {
		return true
	}
	want := max(size, min(n*size, int(m.request.AnswerBytesLeft())))
	if m.full = !m.request.TakeAnswer(want); !m.full {
		m.reserved = want
	}
	return !m.full
}

// bytesLeft returns how many bytes the claim may deliver.
func (m *memory) bytesLeft() int64 {
	if m.request == nil {
		return math.MaxInt64
	}
	return max(int64(m.reserved), m.request.AnswerBytesLeft())
}

// use counts a message of n bytes. If it exceeds what is reserved, use reserves more. It returns false if that
// memory is not available.
func (m *memory) use(n int) bool {
	if m.request == nil {
		return true
	}
	m.used += n
	if more := m.used - m.reserved; more > 0 && !m.full {
		if m.full = !m.request.TakeAnswer(more); !m.full {
			m.reserved += more
		}
	}
	return !m.full
}

// trim returns what is reserved and not used.
func (m *memory) trim() {
	if unused := m.reserved - m.used; unused > 0 {
		m.request.ReturnAnswer(unused)
		m.reserved = m.used
	}
}

// free returns everything.
func (m *memory) free() {
	m.used = 0
	m.trim()
}
