package dispatch_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// act is one random step of the test.
type act struct {
	Verb       string
	Partitions []int64       // "push", "rival", "ack"; "create" and "pop": the named partition, or none
	In         time.Duration // "push": the delay; "pop": the wait; "pass": how long
	Request    int           // "leave"
	Flag       bool          // "pop": autoAck; "push": with a handoff; "ack", "create": by a peer
	Wide       bool          // "pop": two partitions
}

var acts = rapid.Custom(func(t *rapid.T) act {
	a := act{
		Verb: rapid.SampledFrom([]string{
			"pop", "pop", "pop", "pop", "push", "push", "push", "push", "burst", "rival", "ack", "ack", "leave", "pass", "lost race", "resync", "create",
		}).Draw(t, "verb"),
		Flag: rapid.Bool().Draw(t, "flag"), Request: rapid.IntRange(0, 30).Draw(t, "request"),
	}
	partition := rapid.Int64Range(1, 4)
	switch a.Verb {
	case "pop":
		a.Partitions = rapid.SliceOfN(partition, 0, 1).Draw(t, "named")
		a.In = rapid.SampledFrom([]time.Duration{time.Minute, time.Hour, 2 * time.Hour}).Draw(t, "wait")
		a.Wide = rapid.IntRange(0, 5).Draw(t, "wide") == 0
	case "create":
		a.Partitions = rapid.SliceOfN(partition, 0, 1).Draw(t, "named")
	case "push":
		a.Partitions = []int64{partition.Draw(t, "partition")}
		a.In = rapid.SampledFrom([]time.Duration{0, 0, 0, 0, time.Second, time.Minute}).Draw(t, "delay")
	case "burst":
		a.Partitions = []int64{1, 2, 3, 4}
		a.In = rapid.SampledFrom([]time.Duration{0, time.Second}).Draw(t, "delay")
	case "rival", "ack":
		a.Partitions = []int64{partition.Draw(t, "partition")}
	case "pass":
		a.In = rapid.SampledFrom([]time.Duration{time.Second, time.Minute, leaseTime}).Draw(t, "time")
	}
	return a
})

// TestNothingIsStranded performs random steps: pops, clients that leave, pushes, acks, claims of another consumer (rival), and
// time that passes. Each change is announced once. The fallback interval is longer than the test. After each step, no request may
// wait that could take a due partition. A push may wake at most one request for each partition that it makes ready. The queue and
// its partitions do not exist at first. A creation may wake at most one request for each name.
func TestNothingIsStranded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		drawn := rapid.SliceOfN(acts, 5, 40).Draw(rt, "acts")
		failure := ""
		synctest.Test(t, func(t *testing.T) { failure = play(t, drawn) })
		if failure != "" {
			rt.Fatal(failure)
		}
	})
}

// scene is the state of the test while it plays the acts.
type scene struct {
	*harness
	requests []*playedRequest
	// exists has the partitions that exist. Key 0 stands for the queue.
	mu     sync.Mutex
	exists map[int64]bool
}

// mostNames is the number of names for which requests wait: the queue, and each of its partitions.
const mostNames = 5

// resolve replaces Resolve of the store.
func (s *scene) resolve(req *queue.PopRequest) (queue.Target, bool, error) {
	target := queue.Target{Group: 1}
	if req.Partition != nil {
		target.Partition, _ = strconv.ParseInt(*req.Partition, 10, 64)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return target, s.exists[target.Partition], nil
}

// create creates the queue and the partitions that do not exist, and announces them. It returns how many requests the
// announcements may wake.
func (s *scene) create(from events.Origin, partitions ...int64) (announced float64) {
	for _, p := range append([]int64{0}, partitions...) {
		s.mu.Lock()
		exists, hadQueue := s.exists[p], s.exists[0]
		s.exists[p], s.exists[0] = true, true
		s.mu.Unlock()
		if exists {
			continue
		}
		announced += mostNames
		switch {
		case from != events.Here:
			s.bus.Created("", "", from)
		case hadQueue:
			s.bus.Created("orders", strconv.FormatInt(p, 10), from)
		default:
			s.bus.Created("orders", "", from)
		}
	}
	return announced
}

type playedRequest struct {
	req   *queue.PopRequest
	leave context.CancelFunc
	out   <-chan answer
	done  bool
}

// play performs the acts. It returns a description of the first failure, or "".
func play(t *testing.T, drawn []act) string {
	store := &fakeStore{}
	s := &scene{
		harness: run(t, store, func(s *settings) { s.FallbackInterval = 1000 * time.Hour }), exists: map[int64]bool{},
	}
	store.resolve = s.resolve
	defer func() {
		for _, r := range s.requests {
			r.leave()
		}
		synctest.Wait()
	}()
	for i, a := range drawn {
		before := s.woken()
		announced := s.perform(a)
		synctest.Wait()
		woken := s.woken() - before
		if a.Verb != "resync" && a.Verb != "lost race" && a.Verb != "pass" && woken > announced {
			return fmt.Sprintf("act %d (%+v) announced %v partitions and woke %v requests", i, a, announced, woken)
		}
		if what := s.stranded(); what != "" {
			return fmt.Sprintf("after act %d (%+v): %s", i, a, what)
		}
	}
	return ""
}

// woken counts the requests that announcements have woken.
func (s *scene) woken() float64 {
	const name = "belfry_dispatch_woken_total"
	return s.labelled(name, "local") + s.labelled(name, "notify")
}

// perform does one act, and returns how many partitions it announced.
func (s *scene) perform(a act) (announced float64) {
	switch a.Verb {
	case "pop":
		req := &queue.PopRequest{Queue: "orders", Group: "g", Batch: 1, Partitions: 1, Wait: a.In, AutoAck: a.Flag}
		if a.Wide {
			req.Batch, req.Partitions = 3, 2
		}
		if len(a.Partitions) > 0 {
			name := strconv.FormatInt(a.Partitions[0], 10)
			req.Partition = &name
		}
		ctx, leave := context.WithCancel(context.WithoutCancel(s.t.Context()))
		s.requests = append(s.requests, &playedRequest{req: req, leave: leave, out: s.begin(ctx, req)})
	case "push":
		if a.Flag && a.In == 0 {
			return s.handOver(a.Partitions[0])
		}
		return s.create(events.Here, a.Partitions...) + s.announce(s.store.push(a.Partitions, a.In), events.Here)
	case "burst":
		return s.create(events.Here, a.Partitions...) + s.announce(s.store.push(a.Partitions, a.In), events.Here)
	case "create":
		return s.create(origin(a.Flag), a.Partitions...)
	case "rival":
		s.store.takeDue(a.Partitions[0])
	case "ack":
		return s.announce(s.store.ack(a.Partitions[0]), origin(a.Flag))
	case "leave":
		if a.Request < len(s.requests) {
			s.requests[a.Request].leave()
		}
	case "pass":
		<-time.After(a.In)
	case "lost race":
		s.loseNextClaim()
	case "resync":
		s.bus.Resync("for the test", events.Peer)
	}
	return 0
}

func origin(peer bool) events.Origin {
	if peer {
		return events.Peer
	}
	return events.Here
}

// loseNextClaim makes another consumer take the partition of the next claim just before this claim.
func (s *scene) loseNextClaim() {
	s.store.change(func(f *fakeStore) {
		f.onClaim = func(assignments []queue.Assignment) error {
			f.change(func(f *fakeStore) { f.onClaim = nil })
			if p := assignments[0].Target.Partition; p != 0 {
				f.takeDue(p)
			}
			return nil
		}
	})
}

func (s *scene) announce(ready []queue.Ready, from events.Origin) float64 {
	s.bus.Ready(ready, from)
	return float64(len(ready))
}

// handOver pushes like the store: it commits, makes the claims, and then announces the partitions that are ready.
func (s *scene) handOver(partition int64) float64 {
	created := s.create(events.Here, partition)
	offers := s.intents.Handoffs("orders", strconv.FormatInt(partition, 10))
	ready := s.store.push([]int64{partition}, 0)
	for _, offer := range offers {
		s.store.mu.Lock()
		d := s.store.takeLocked(offer.Request, offer.Target)
		s.store.mu.Unlock()
		for i := range ready {
			if len(d.Messages) > 0 && slices.ContainsFunc(d.Messages, func(m queue.Message) bool { return m.Partition.Key == ready[i].Partition }) {
				ready = s.store.readyNow(ready[i].Partition)
			}
		}
		if !offer.Take(d) && len(d.Messages) > 0 {
			for _, m := range d.Messages { // released
				s.announce(s.store.giveBack(m.Partition.Key), events.Here)
			}
		}
	}
	return created + s.announce(ready, events.Here) + 2 // 2 more for released partitions
}

// stranded describes a request that waits although it could take a partition, or returns "".
func (s *scene) stranded() string {
	for i, r := range s.requests {
		select {
		case <-r.out:
			r.done = true
		default:
		}
		if r.done {
			continue
		}
		target, exists, _ := s.resolve(r.req)
		if !exists {
			continue
		}
		s.store.mu.Lock()
		for _, key := range s.store.matchingLocked(target) {
			if p := s.store.parts[key]; !p.readyAt.After(time.Now()) {
				s.store.mu.Unlock()
				return fmt.Sprintf("request %d waits for %v, and partition %d is due", i, target, key.Partition)
			}
		}
		s.store.mu.Unlock()
	}
	return ""
}

// push adds a message to each partition, and returns which partitions become ready.
func (f *fakeStore) push(partitions []int64, in time.Duration) (ready []queue.Ready) {
	for _, partition := range partitions {
		f.mu.Lock()
		p := f.parts[queue.Target{Group: 1, Partition: partition}]
		waits := p != nil && p.messages > 0
		if waits {
			p.messages++
		}
		f.mu.Unlock()
		if !waits {
			f.put(1, partition, 1, in)
			f.change(func(f *fakeStore) { f.parts[queue.Target{Group: 1, Partition: partition}].leased = false })
			ready = append(ready, queue.Ready{Group: 1, Partition: partition, In: in})
		}
	}
	return ready
}

// readyNow returns when the partition is ready, or nil if it has no messages.
func (f *fakeStore) readyNow(partition int64) []queue.Ready {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.parts[queue.Target{Group: 1, Partition: partition}]
	if p.messages == 0 {
		return nil
	}
	return []queue.Ready{{Group: 1, Partition: partition, In: time.Until(p.readyAt)}}
}

// takeDue leases a partition to another consumer if the partition is due.
func (f *fakeStore) takeDue(partition int64) {
	f.change(func(f *fakeStore) {
		if p := f.parts[queue.Target{Group: 1, Partition: partition}]; p != nil && p.messages > 0 && !p.readyAt.After(time.Now()) {
			p.leased, p.readyAt = true, time.Now().Add(leaseTime)
		}
	})
}

// ack ends a lease and consumes a message. It returns when the partition is ready again.
func (f *fakeStore) ack(partition int64) []queue.Ready {
	f.mu.Lock()
	p := f.parts[queue.Target{Group: 1, Partition: partition}]
	if p == nil || !p.leased || !p.readyAt.After(time.Now()) {
		f.mu.Unlock()
		return nil
	}
	p.messages--
	f.mu.Unlock()
	return f.giveBack(partition)
}

// giveBack ends a lease. It returns when the partition is ready again.
func (f *fakeStore) giveBack(partition int64) []queue.Ready {
	f.change(func(f *fakeStore) {
		p := f.parts[queue.Target{Group: 1, Partition: partition}]
		p.leased, p.readyAt = false, time.Now()
	})
	return f.readyNow(partition)
}
