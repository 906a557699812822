package model_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"pgregory.net/rapid"

	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/engine/deadletter"
	"github.com/belfry-mq/belfry/pkg/engine/store"
	"github.com/belfry-mq/belfry/pkg/insight/explain"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/pgtest"
)

const (
	// highestLimit is the largest retryLimit that is drawn. Each limit has separate stores, because a queue that a push
	// creates gets the retryLimit of the store.
	highestLimit = 2
	instances    = 2
)

var (
	partitions = []string{queue.DefaultPartition, "b"}
	groups     = []string{queue.DefaultGroup, "g"}
)

// service is a database and the instances that serve it.
type service struct {
	events.Nop
	pool      *postgres.Pool
	catalog   *catalog.Catalog
	letters   *deadletter.Letters
	explainer *explain.Explainer
	// stores are indexed by retryLimit and instance.
	stores [highestLimit + 1][instances]*store.Store
	queues atomic.Int64
}

func newService(t *testing.T) *service {
	t.Helper()
	pool := enginetest.Pool(t, pgtest.Database(t))
	bus := &events.Bus{}
	h := &service{pool: pool, catalog: catalog.New(pool, nil, bus, zap.NewNop()), letters: deadletter.New(pool, nil, bus, zap.NewNop()), explainer: explain.New(pool, 0)}
	for limit := range h.stores {
		for i := range h.stores[limit] {
			defaults := queue.DefaultDefaults()
			defaults.RetryLimit, defaults.RetryDelay = int64(limit), 0
			s := enginetest.Store(t, pool, func(c *store.Config) { c.Defaults = defaults })
			h.stores[limit][i] = s
		}
	}
	bus.Subscribe(h)
	return h
}

// machine is the state of one sequence of verbs: the queue in the database and its model.
type machine struct {
	*service
	t     *testing.T
	queue string
	limit int
	world *world
	names names
	// deliveries and leases are all deliveries and leases of the sequence, including ended ones.
	deliveries []queue.Delivery
	leases     []queue.ID
	payloads   int
	// began has the start time of each step. The test and Postgres read the same clock.
	began []time.Time
	// sent are the transactions that were applied.
	sent []*queue.Transaction
	// memories are indexed by instance.
	memories [instances]memory
}

// TestTheStoreAgreesWithTheModel draws verbs and runs each verb on the store and on the model.
func TestTheStoreAgreesWithTheModel(t *testing.T) {
	t.Parallel()
	h := newService(t)
	rapid.Check(t, func(r *rapid.T) {
		limit := rapid.IntRange(0, highestLimit).Draw(r, "retryLimit")
		m := &machine{
			service: h, t: t, queue: fmt.Sprintf("q%d", h.queues.Add(1)), limit: limit,
			world: newWorld(int64(limit)), names: newNames(),
		}
		for i := range m.memories {
			m.memories[i] = memory{}
		}
		if rapid.Bool().Draw(r, "configured") {
			m.configure(r)
		}
		r.Repeat(map[string]func(*rapid.T){
			"push": m.push, "pop": m.pop, "pop partition": m.popPartition,
			"ack latest": m.ackLatest, "ack delivery": m.ackDelivery, "ack anything": m.ackAnything,
			"transact": m.transact, "extend": m.extend, "expire": m.expire, "release": m.release, "end": m.end, "seek": m.seek, "redrive": m.redrive, "crash loop": m.crashLoop, "fail again": m.failAgain, "delete message": m.deleteMessage, "delete group": m.deleteGroup, "configure": m.configure, "time": m.pass, "sweep": m.sweep, "pause": m.pause,
			"": m.check,
		})
	})
}

// step begins a step.
func (m *machine) step() {
	m.world.step++
	m.began = append(m.began, time.Now())
}

// store begins a step and draws the instance that serves the verb.
func (m *machine) store(r *rapid.T) *store.Store {
	m.step()
	at := rapid.IntRange(0, instances-1).Draw(r, "instance")
	m.world.memory = m.memories[at]
	return m.stores[m.limit][at]
}

// agree compares the answers of a verb.
func (m *machine) agree(r *rapid.T, verb, model, store string) {
	r.Logf("%s -> %s", verb, store)
	require.Equal(r, model, store, "%s: the model (expected) and the store (actual) disagree", verb)
}

func (m *machine) push(r *rapid.T) {
	s := m.store(r)
	items := make([]queue.PushItem, rapid.IntRange(1, 4).Draw(r, "items"))
	var text []string
	for i := range items {
		m.payloads++
		items[i] = queue.PushItem{
			Queue: m.queue, Partition: rapid.SampledFrom(partitions).Draw(r, "partition"),
			TransactionID: rapid.SampledFrom([]string{"", "t1", "t2", "t3", "t4"}).Draw(r, "transaction"),
			Payload:       fmt.Appendf(nil, `{"n": %d}`, m.payloads),
		}
		text = append(text, fmt.Sprintf("%s/%s", items[i].Partition, items[i].TransactionID))
	}
	results, err := s.Push(m.t.Context(), items)
	require.NoError(r, err)
	require.Len(r, results, len(items))
	want := m.world.push(items)
	m.learn(r, want, results)
	m.agree(r, "push "+strings.Join(text, ", "), fmt.Sprint(want), fmt.Sprint(m.names.pushed(results)))
}

// learn copies ids generated by the store into the model.
func (m *machine) learn(r *rapid.T, want []stored, results []queue.PushResult) {
	for i, w := range want {
		if w.partition.id.IsZero() {
			w.partition.id = results[i].PartitionID
		}
		require.Equal(r, w.partition.id, results[i].PartitionID, "a partition must keep its id")
		one := &w.partition.log[w.seq-1]
		if !w.duplicate {
			one.id = results[i].MessageID
			m.names.messages[one.id] = fmt.Sprintf("%s#%d", w.partition.name, w.seq)
		}
		if one.transactionID == "" {
			one.transactionID = results[i].TransactionID
		}
		require.NotEmpty(r, results[i].TransactionID)
		require.Equal(r, one.transactionID, results[i].TransactionID)
	}
}

func (m *machine) pop(r *rapid.T) {
	m.claim(r, &queue.PopRequest{Partitions: rapid.IntRange(1, 2).Draw(r, "partitions")})
}

func (m *machine) popPartition(r *rapid.T) {
	name := rapid.SampledFrom(partitions).Draw(r, "partition")
	m.claim(r, &queue.PopRequest{Partition: &name, Partitions: 1})
}

func (m *machine) claim(r *rapid.T, req *queue.PopRequest) {
	req.Group, req.AutoAck = rapid.SampledFrom(groups).Draw(r, "group"), rapid.IntRange(0, 3).Draw(r, "autoAck") == 3
	m.claimFor(r, req)
}

// claimFor is like claim, but the caller sets the group and autoAck of req.
func (m *machine) claimFor(r *rapid.T, req *queue.PopRequest) {
	s := m.store(r)
	req.Queue, req.Batch = m.queue, rapid.IntRange(1, 6).Draw(r, "batch")
	req.Subscription.Mode = rapid.SampledFrom([]queue.SubscriptionMode{queue.SubscribeAll, queue.SubscribeNew}).Draw(r, "start")
	explained := m.explain(r, req)
	d, err := s.Pop(m.t.Context(), req)
	require.NoError(r, err)
	explained(d)
	require.Equal(r, []string{req.Queue, req.Group}, []string{d.Queue, d.Group})
	require.False(r, d.Contested, "no other client pops, so the pop cannot be contested")
	if len(d.Messages) > 0 {
		m.deliveries = append(m.deliveries, d)
		require.Equal(r, req.AutoAck, d.LeaseID.IsZero(), "an autoAck pop must take no lease")
		if !req.AutoAck {
			m.leases = append(m.leases, d.LeaseID)
			m.names.leases[d.LeaseID] = fmt.Sprintf("L%d", len(m.leases))
		}
	}
	verb := fmt.Sprintf("pop %s for %s batch %d partitions %d", partitionText(req), req.Group, req.Batch, req.Partitions)
	if req.AutoAck {
		verb += " autoAck"
	}
	m.agree(r, verb, m.expect(r, req, &d), m.delivered(&d))
	if !d.LeaseID.IsZero() {
		m.world.remember(&d)
	}
}

// explain asks for an explanation of the partition before the pop. It returns a function that compares the explanation with
// the delivery. If the group does not exist yet, the explanation predicts nothing.
func (m *machine) explain(r *rapid.T, req *queue.PopRequest) func(queue.Delivery) {
	if req.Partition == nil {
		return func(queue.Delivery) {}
	}
	why, err := m.explainer.Explain(m.t.Context(), explain.Question{Queue: m.queue, Partition: *req.Partition, Group: req.Group}, explain.Instance{})
	require.NoError(r, err)
	return func(d queue.Delivery) {
		switch why.Code {
		case explain.NoGroup, explain.NoCursor:
		case explain.NoWaiter:
			require.NotEmpty(r, d.Messages, why.Sentence)
			require.Equal(r, why.Next, d.Messages[0].TransactionID)
		default:
			require.Empty(r, d.Messages, "%s: %s", why.Code, why.Sentence)
		}
	}
}

func partitionText(req *queue.PopRequest) string {
	if req.Partition == nil {
		return "any"
	}
	return *req.Partition
}
