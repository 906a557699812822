package dispatch_test

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// leaseTime is how long the fake store leases.
const leaseTime = 10 * time.Minute

// fakeStore keeps partitions in memory. A claim leases a partition, and a claim with AutoAck removes its messages. The hooks
// (onPop, onClaim and so on) run without the lock, before the method has an effect. If a hook returns an error, the method
// returns this error.
type fakeStore struct {
	// resolve replaces the answer of Resolve, and pop the answer of Pop.
	resolve func(req *queue.PopRequest) (queue.Target, bool, error)
	// joining: the groups still join their queues.
	joining atomic.Bool
	pop     func(ctx context.Context, req *queue.PopRequest) (queue.Delivery, error)
	onPop   func(req *queue.PopRequest) error
	// onFound may change the results of a preflight.
	onPreflight func(probes []queue.Probe, limit time.Duration) error
	onFound     func(results []queue.ProbeResult)
	onClaim     func(assignments []queue.Assignment) error
	// onClaimed runs when the claims are made.
	onClaimed func()
	// most is the concurrency of group 1, and every the time between two of its tokens. 0: no limit.
	most  int
	every time.Duration
	// refuse may change the result of a claim before the dispatcher gets it. The claim then has no effect.
	refuse func(d *queue.Delivery)
	// unopened is the Undeliverable error of claims that find nothing although something was due.
	unopened error
	release  error
	onForget func()
	// gone are the groups that were deleted.
	gone map[int64]bool
	// endedEpoch is an epoch that has ended.
	endedEpoch queue.Epoch

	mu         sync.Mutex
	parts      map[queue.Target]*part
	statements []time.Time // when each pop, preflight or round trip of claims began
	resolves   int
	released   []queue.ID
	nextToken  time.Time
}

// part is the state of a partition for one group.
type part struct {
	messages int
	readyAt  time.Time
	leased   bool
}

// change sets hooks while the dispatcher works.
func (f *fakeStore) change(set func(*fakeStore)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	set(f)
}

// put adds messages that become poppable after in.
func (f *fakeStore) put(group, partition int64, n int, in time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.parts == nil {
		f.parts = map[queue.Target]*part{}
	}
	key := queue.Target{Group: group, Partition: partition}
	if f.parts[key] == nil {
		f.parts[key] = &part{}
	}
	f.parts[key].messages += n
	f.parts[key].readyAt = time.Now().Add(in)
}

// matchingLocked lists the partitions of a target that hold messages. The partition that has been due the longest is first.
func (f *fakeStore) matchingLocked(target queue.Target) []queue.Target {
	var list []queue.Target
	for key, p := range f.parts {
		if key.Group == target.Group && (target.Partition == 0 || key.Partition == target.Partition) && p.messages > 0 {
			list = append(list, key)
		}
	}
	slices.SortFunc(list, func(a, b queue.Target) int {
		return cmp.Or(f.parts[a].readyAt.Compare(f.parts[b].readyAt), cmp.Compare(a.Partition, b.Partition))
	})
	return list
}

func (f *fakeStore) goneLocked(target queue.Target) bool {
	return f.gone[target.Group] || f.endedEpoch != 0 && target.Epoch == f.endedEpoch
}

// limitedLocked returns the time until the limits of a target allow a claim.
func (f *fakeStore) limitedLocked(target queue.Target) (in time.Duration, limited bool) {
	if target.Group != 1 {
		return 0, false
	}
	now := time.Now()
	live, first := 0, time.Duration(0)
	for key, p := range f.parts {
		if left := p.readyAt.Sub(now); key.Group == 1 && p.leased && left > 0 {
			if live++; first == 0 || left < first {
				first = left
			}
		}
	}
	if f.most > 0 && live >= f.most {
		return first, true
	}
	return f.nextToken.Sub(now), f.nextToken.After(now)
}

// end ends the lease of a partition of group 1, with all its messages done.
func (f *fakeStore) end(partition int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.parts, queue.Target{Group: 1, Partition: partition})
}

// leasedPartition returns a leased partition of group 1.
func (f *fakeStore) leasedPartition() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, p := range f.parts {
		if key.Group == 1 && p.leased && p.messages > 0 {
			return key.Partition
		}
	}
	return 0
}

// takeLocked makes one claim.
func (f *fakeStore) takeLocked(req *queue.PopRequest, target queue.Target) (d queue.Delivery) {
	now := time.Now()
	d = queue.Delivery{Queue: req.Queue, Group: req.Group, Gone: f.goneLocked(target)}
	if d.Gone {
		return d
	}
	if !req.AutoAck {
		d.LeaseID = queue.NewID()
	}
	next := func(at time.Time) {
		if in := at.Sub(now); !d.HasNext || in < d.NextIn {
			d.HasNext, d.NextIn = true, in
		}
	}
	list := f.matchingLocked(target)
	due := len(list) > 0 && !f.parts[list[0]].readyAt.After(now)
	if d.LimitedIn, d.Limited = f.limitedLocked(target); d.Limited && due {
		return d
	}
	if f.refuse != nil && due {
		if f.refuse(&d); d.Limited {
			return d
		}
	}
	defer func() {
		if d.Limited = false; len(d.Messages) > 0 && f.every > 0 {
			f.nextToken = now.Add(f.every)
			d.Limited, d.LimitedIn = true, f.every
		}
	}()
	for _, key := range list {
		p := f.parts[key]
		take := min(req.Batch-len(d.Messages), p.messages)
		if p.readyAt.After(now) || take == 0 || d.Partitions == req.Partitions {
			continue
		}
		d.Partitions++
		for range take {
			d.Messages = append(d.Messages, queue.Message{Partition: &queue.Partition{Key: key.Partition}})
		}
		if req.AutoAck {
			p.messages -= take
		} else {
			p.leased, p.readyAt = true, now.Add(leaseTime)
		}
		if p.messages > 0 {
			next(p.readyAt)
		}
	}
	if d.Partitions == 0 && len(list) > 0 {
		next(f.parts[list[0]].readyAt)
	}
	return d
}

func (f *fakeStore) Resolve(_ context.Context, req *queue.PopRequest) (target queue.Target, joining, ok bool, err error) {
	f.mu.Lock()
	f.resolves++
	f.mu.Unlock()
	target, ok = targetOf(req), true
	if f.resolve != nil {
		target, ok, err = f.resolve(req)
	}
	return target, f.joining.Load(), ok, err
}

func targetOf(req *queue.PopRequest) queue.Target {
	if req.Partition != nil {
		return queue.Target{Group: 1, Partition: 1}
	}
	return queue.Target{Group: 1}
}

func (f *fakeStore) Forget(*queue.PopRequest, queue.Target) {
	if f.onForget != nil {
		f.onForget()
	}
}

func (f *fakeStore) Pop(ctx context.Context, req *queue.PopRequest) (queue.Delivery, error) {
	f.mu.Lock()
	f.statements = append(f.statements, time.Now())
	onPop := f.onPop
	f.mu.Unlock()
	if onPop != nil {
		if err := onPop(req); err != nil {
			return queue.Delivery{}, err
		}
	}
	if f.pop != nil {
		return f.pop(ctx, req)
	}
	target, _, ok, err := f.Resolve(ctx, req)
	if err != nil || !ok {
		return queue.Delivery{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delivery := f.takeLocked(req, target)
	delivery.Target = target
	return delivery, nil
}

func (f *fakeStore) Preflight(_ context.Context, probes []queue.Probe, limit time.Duration) ([]queue.ProbeResult, error) {
	f.mu.Lock()
	f.statements = append(f.statements, time.Now())
	onPreflight := f.onPreflight
	f.mu.Unlock()
	if onPreflight != nil {
		if err := onPreflight(probes, limit); err != nil {
			return nil, err
		}
	}
	results := f.find(probes)
	if f.onFound != nil {
		f.onFound(results)
	}
	return results, nil
}

func (f *fakeStore) find(probes []queue.Probe) []queue.ProbeResult {
	f.mu.Lock()
	defer f.mu.Unlock()
	results := make([]queue.ProbeResult, len(probes))
	for i, probe := range probes {
		due, next := 0, false
		results[i].Gone = f.goneLocked(probe.Target)
		results[i].LimitedIn, results[i].Limited = f.limitedLocked(probe.Target)
		for _, key := range f.matchingLocked(probe.Target) {
			p := f.parts[key]
			in := time.Until(p.readyAt)
			if (in <= 0 && due == probe.Want) || (in > 0 && next) {
				continue
			}
			due, next = due+1, in > 0
			results[i].Candidates = append(results[i].Candidates, queue.Candidate{
				Partition: key.Partition, In: in, Depth: int64(p.messages), Leased: p.leased,
			})
		}
	}
	return results
}

func (f *fakeStore) Claim(_ context.Context, assignments []queue.Assignment) ([]queue.Delivery, error) {
	f.mu.Lock()
	f.statements = append(f.statements, time.Now())
	due := make([]bool, len(assignments))
	for i, a := range assignments {
		list := f.matchingLocked(a.Target)
		due[i] = len(list) > 0 && !f.parts[list[0]].readyAt.After(time.Now())
	}
	onClaim := f.onClaim
	f.mu.Unlock()
	if onClaim != nil {
		if err := onClaim(assignments); err != nil {
			return nil, err
		}
	}
	deliveries := make([]queue.Delivery, len(assignments))
	f.mu.Lock()
	for i, a := range assignments {
		deliveries[i] = f.takeLocked(a.Request, a.Target)
		if deliveries[i].Contested = due[i] && len(deliveries[i].Messages) == 0 && !deliveries[i].Limited; deliveries[i].Contested {
			deliveries[i].Undeliverable = f.unopened
		}
	}
	f.mu.Unlock()
	if f.onClaimed != nil {
		f.onClaimed()
	}
	return deliveries, nil
}

func (f *fakeStore) Release(_ context.Context, lease queue.ID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.released = append(f.released, lease)
	return f.release
}

// steal leases the partitions of group 1 to another consumer.
func (f *fakeStore) steal(partitions ...int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, partition := range partitions {
		p := f.parts[queue.Target{Group: 1, Partition: partition}]
		p.leased, p.readyAt = true, time.Now().Add(leaseTime)
	}
}

// count returns how many statements the pops have sent so far.
func (f *fakeStore) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.statements)
}

// looks counts the calls that may have queried the database.
func (f *fakeStore) looks() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.resolves + len(f.statements)
}

// times returns the instants at which statements began.
func (f *fakeStore) times() []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Compact(slices.Clone(f.statements))
}

// gaps returns the times between the statements.
func (f *fakeStore) gaps() []time.Duration {
	times := f.times()
	var gaps []time.Duration
	for i := 1; i < len(times); i++ {
		gaps = append(gaps, times[i].Sub(times[i-1]))
	}
	return gaps
}

func (f *fakeStore) leases() []queue.ID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.released)
}
