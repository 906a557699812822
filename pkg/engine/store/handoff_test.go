package store_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// receiver records events and offers one waiting request.
type receiver struct {
	events.Nop
	// offered is the waiting request, or nil. If gone is set, the request takes no delivery any
	// more.
	offered *queue.PopRequest
	target  queue.Target
	gone    bool

	taken []queue.Delivery
	// order lists the calls.
	order []string
	ready []queue.Ready
	// resyncs counts the resync events.
	resyncs atomic.Int64
}

func (r *receiver) OnResync(string, events.Origin) { r.resyncs.Add(1) }

func (r *receiver) OnReady(ready []queue.Ready, _ events.Origin) {
	r.order, r.ready = append(r.order, "ready"), append(r.ready, ready...)
}

func (r *receiver) Handoffs(queueName, partition string) []queue.Handoff {
	r.order = append(r.order, "asked for "+queueName+"/"+partition)
	if r.offered == nil {
		return nil
	}
	return []queue.Handoff{{
		Assignment: queue.Assignment{Request: r.offered, Target: r.target},
		Take: func(d queue.Delivery) bool {
			r.order, r.taken = append(r.order, "take"), append(r.taken, d)
			return !r.gone && len(d.Messages) > 0
		},
	}}
}

// waiting returns a bench and a receiver that offers req.
func waiting(t *testing.T, req *queue.PopRequest) (*bench, *receiver) {
	t.Helper()
	b := newBench(t)
	b.register(req.Group)
	target := b.resolve(req)
	r := &receiver{offered: req, target: target}
	b.Observe(r)
	return b, r
}

func TestAPushHandsItsMessagesToAWaitingRequest(t *testing.T) {
	b, r := waiting(t, request("g", 2))
	b.push("p", "1", "2", "3")
	require.Equal(t, []string{"asked for q/p", "take", "ready"}, r.order)
	require.Greater(t, r.ready[0].In, time.Minute, "the partition is ready when the lease ends")
	require.Len(t, r.taken, 1)
	d := r.taken[0]
	require.Equal(t, []string{"1", "2"}, transactionIDs(d))
	require.False(t, d.LeaseID.IsZero())
	require.Equal(t, "p", d.Messages[0].Partition.Name)
	require.Equal(t, 1, d.Messages[0].Attempt)
	require.Empty(t, b.pop(request("g", 1)).Messages, "the partition is leased")
	for _, result := range b.ack(d, queue.AckCompleted, d.Messages...) {
		require.True(t, result.Success, "%v", result)
	}
	r.offered = nil
	require.Equal(t, []string{"3"}, transactionIDs(b.pop(request("g", 1))))
}

// After a handoff with autoAck, a drained partition is not ready, so the push does not announce it for the
// group. It announces the partition if messages are left.
func TestAPushHandsItsMessagesToAnAutoAckRequest(t *testing.T) {
	req := request("g", 2, withAutoAck(true))
	b, r := waiting(t, req)
	b.push("p", "1", "2")
	require.Equal(t, []string{"asked for q/p", "take"}, r.order)
	require.Equal(t, []string{"1", "2"}, transactionIDs(r.taken[0]))
	require.Empty(t, b.pop(request("g", 1)).Messages, "the messages are consumed")

	b.push("p", "3", "4", "5")
	require.Equal(t, []string{"3", "4"}, transactionIDs(r.taken[1]))
	require.Equal(t, "ready", r.order[len(r.order)-1])
	require.LessOrEqual(t, r.ready[0].In, time.Duration(0))
	require.Zero(t, b.stranded())
	require.Equal(t, []string{"5"}, transactionIDs(b.pop(request("g", 1))))
}

// offers offers several waiting requests.
type offers struct {
	receiver
	all []queue.Handoff
}

func (o *offers) Handoffs(string, string) []queue.Handoff { return o.all }

// A push, or a round, claims for a request with autoAck and for a request without autoAck. The commit of both
// claims waits for the disk, in each order of the requests.
func TestAClaimThatConsumesWaitsForTheDisk(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ inRound, consumesFirst bool }{{false, true}, {false, false}, {true, true}, {true, false}} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			b := newBench(t, "consuming", "leasing")
			o := &offers{}
			for _, group := range []string{"consuming", "leasing"} {
				req := request(group, 1, withAutoAck(group == "consuming"))
				target := b.resolve(req)
				o.all = append(o.all, queue.Handoff{
					Assignment: queue.Assignment{Request: req, Target: target}, Take: func(d queue.Delivery) bool { return len(d.Messages) > 0 },
				})
			}
			if !c.consumesFirst {
				slices.Reverse(o.all)
			}
			if !c.inRound {
				b.Observe(o)
			}
			b.push("p", "1") // creates the cursors
			b.exec(`UPDATE belfry.cursor c SET committed = p.last_seq, ready_at = NULL, lease_id = NULL, lease_until = NULL FROM belfry.partition p`)
			b.exec(`CREATE TABLE belfry.committed (durable text)`)
			b.exec(`CREATE FUNCTION belfry.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
				INSERT INTO belfry.committed VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$`)
			b.exec(`CREATE CONSTRAINT TRIGGER note AFTER UPDATE ON belfry.cursor DEFERRABLE INITIALLY DEFERRED
				FOR EACH ROW WHEN (NEW.committed > OLD.committed) EXECUTE FUNCTION belfry.note()`)
			b.push("p", "2")
			if c.inRound {
				_, err := b.Claim(t.Context(), []queue.Assignment{o.all[0].Assignment, o.all[1].Assignment})
				require.NoError(t, err)
			}
			var durable []string
			b.scan(`SELECT array_agg(durable) FROM belfry.committed`, nil, &durable)
			require.Equal(t, []string{"on"}, durable, "%+v", c)
		})
	}
}

func TestAnAutoAckHandoffThatIsNotTakenIsUndone(t *testing.T) {
	req := request("g", 1, withAutoAck(true))
	b, r := waiting(t, req)
	r.gone = true
	b.push("p", "1")
	require.Len(t, r.taken, 1)
	require.Equal(t, []string{"1"}, transactionIDs(b.pop(request("g", 1))))
}

func TestAHandoffThatIsNotTakenIsReleased(t *testing.T) {
	b, r := waiting(t, request("g", 1))
	r.gone = true
	b.push("p", "1")
	require.Len(t, r.taken, 1)
	got := b.pop(request("g", 1))
	require.Equal(t, []string{"1"}, transactionIDs(got))
	require.Equal(t, 1, got.Messages[0].Attempt, "a handoff that was not taken counts no attempt")
}

// If the claim of a handoff fails, the push succeeds and announces its cursors.
func TestAPushSucceedsIfItsHandoffFails(t *testing.T) {
	impossible := request("g", 1)
	b, r := waiting(t, request("g", 1))
	impossible.Partitions = -1
	r.offered = impossible
	require.False(t, b.push("p", "1")[0].Duplicate)
	require.Len(t, r.taken, 1)
	require.Empty(t, r.taken[0].Messages)
	require.Len(t, r.ready, 1)
	require.Equal(t, r.target.Group, r.ready[0].Group)
	require.Zero(t, b.stranded())
	require.Equal(t, []string{"1"}, transactionIDs(b.pop(request("g", 1))))
}

func TestAFailedPushEndsItsHandoffs(t *testing.T) {
	b, r := waiting(t, request("g", 1))
	bad := item("p", "1")
	bad.Payload = []byte("{not json")
	_, err := b.Push(t.Context(), []queue.PushItem{bad})
	require.Error(t, err)
	require.Equal(t, []string{"asked for q/p", "take"}, r.order)
	require.Empty(t, r.taken[0].Messages)
}

// panicking is an AnswerMemory of a request.
type panicking struct{ queue.AnswerMemory }

func (panicking) TakeAnswer(int) bool { panic("for the test") }

func TestAPushThatPanicsEndsItsHandoffs(t *testing.T) {
	req := request("g", 1)
	req.Memory = panicking{}
	b, r := waiting(t, req)
	_, err := b.Push(t.Context(), []queue.PushItem{item("p", "1")})
	require.Error(t, err)
	require.Equal(t, []string{"asked for q/p", "take"}, r.order)
}

func TestAPushToSeveralPartitionsMakesNoHandoff(t *testing.T) {
	b, r := waiting(t, request("g", 1))
	_, err := b.Push(t.Context(), []queue.PushItem{item("p", "1"), item("other", "2")})
	require.NoError(t, err)
	require.Equal(t, []string{"ready"}, r.order)
}
