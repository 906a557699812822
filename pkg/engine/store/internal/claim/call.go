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
	// sent is set once the claim was sent. If it is set before a try, the outcome of an earlier try
	// is unknown.
	sent bool

	result
	memory memory
	// ended is the error for a sender whose rights have ended, or nil.
	ended error
	// scan holds the scan floors of the claim. released are the partitions that the release of an
	// earlier lease made ready.
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

// reset removes the result of an earlier try. All tries have the same lease id.
func (call *claimCall) reset() {
	call.memory.used = 0
	*call = claimCall{
		req: call.req, target: call.target, sent: call.sent, memory: call.memory,
		result: result{delivery: queue.Delivery{Queue: call.req.Queue, Group: call.req.Group, LeaseID: call.delivery.LeaseID}},
	}
}

// reserve reserves the memory for the messages of a call. It returns false if the memory is not available, or if
// the rights of the sender have ended. Then the caller must not send the claim.
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

// refusal returns an error if the messages must not be delivered: the memory is full, or the rights of the
// sender have ended. A payload that cannot be decrypted is not a refusal.
func (call *claimCall) refusal() error {
	if call.memory.full {
		return queue.MemoryFull()
	}
	return call.ended
}

// queue adds the claim to b. A claim of one partition needs no scan floors. alone must be true only if the
// transaction makes no other claim, and takes no other lock afterwards.
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

// send makes claims in one pipeline, which is one transaction. It first releases the leases of earlier tries,
// because they would block the partitions until they expire. The last claim decides whether the commit waits
// for the disk, so claims with autoAck come last.
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

// giveBackUnsafe undoes a claim that the synchronous standbys did not confirm. A failover can lose
// such a claim, and its messages would be delivered twice.
func (c *Claimer) giveBackUnsafe(ctx context.Context, call *claimCall) {
	if len(call.delivery.Messages) == 0 {
		return
	}
	if err := c.giveBack(ctx, call); err != nil {
		c.Log.Warn("a claim that the synchronous standbys did not confirm could not be undone", zap.String("queue", call.req.Queue), zap.Error(err))
	}
}

// readResult reads the next result of the pipeline as the result of the call.
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

// messageSizes estimates the size of the messages of a queue from its latest deliveries. The hashes of two
// queues may select the same entry.
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

// learn records the mean size of the messages of a delivery. The estimate rises at once. It falls by at
// most an eighth per delivery.
func (s *messageSizes) learn(queueName string, mean int) {
	recent := s.entry(queueName)
	old := recent.Load()
	recent.Store(max(int64(mean), old-old/8))
}

// memory is the part of the memory of a request that a call has reserved. All sizes are bytes of
// messages.
type memory struct {
	request queue.AnswerMemory // nil if the memory is not bounded
	// reserved is the size that the call has reserved. used is the size of its messages.
	reserved, used int
	// full is set after a reservation was refused.
	full bool
}

// reserve reserves the memory for n messages of the given size. It reserves less if the request has less
// memory left for its answer, but at least the memory for one message. It returns false if the memory is not
// available.
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

// bytesLeft returns the number of bytes that the claim may deliver.
func (m *memory) bytesLeft() int64 {
	if m.request == nil {
		return math.MaxInt64
	}
	return max(int64(m.reserved), m.request.AnswerBytesLeft())
}

// use counts a message of n bytes. If the messages exceed the reserved size, use reserves more. It returns
// false if the memory is not available.
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

// trim gives the unused part of the reserved size back to the request.
func (m *memory) trim() {
	if unused := m.reserved - m.used; unused > 0 {
		m.request.ReturnAnswer(unused)
		m.reserved = m.used
	}
}

// free gives the whole reserved size back to the request.
func (m *memory) free() {
	m.used = 0
	m.trim()
}
