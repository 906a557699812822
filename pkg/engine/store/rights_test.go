package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// endingRights ends the rights of a request after a number of checks.
func endingRights(req *queue.PopRequest, looks int) {
	req.Check = func() error {
		if looks--; looks < 0 {
			return &queue.Error{Code: queue.CodeUnauthenticated, Message: "revoked"}
		}
		return nil
	}
}

// If the rights of a sender end during a claim, the claim delivers no message. The messages stay ready, also with
// autoAck, and no delivery is counted. The test checks each route to a claim. If the rights ended before the
// claim, no claim is made.
func TestAClaimWhoseRightsHaveEndedIsGivenBack(t *testing.T) {
	t.Parallel()
	for _, autoAck := range []bool{false, true} {
		t.Run(fmt.Sprintf("autoAck=%t", autoAck), func(t *testing.T) {
			waits := request("g", 4, withAutoAck(autoAck), across(2))
			b, r := waiting(t, waits)
			r.offered = nil
			b.push("p", "a", "b")
			b.push("other", "c")
			before := b.cursorStates("g")
			claims := func() int {
				return int(enginetest.Metric(b.t, b.reg, "belfry_batch_calls", "claim")) + int(enginetest.Metric(b.t, b.reg, "belfry_batch_calls", "take"))
			}
			for looks, made := range []int{0, 1} {
				already := claims()
				req := *waits
				endingRights(&req, looks)
				_, err := b.Pop(t.Context(), &req)
				require.Equal(t, queue.CodeUnauthenticated, queue.CodeOf(err), "%v", err)
				require.Equal(t, made, claims()-already)
				require.Equal(t, before, b.cursorStates("g"))

				tagged := req
				tagged.Queue, tagged.Tags = "", &queue.Tags{Namespace: "q"}
				b.option("namespace = 'q'")
				endingRights(&tagged, looks)
				_, err = b.Pop(t.Context(), &tagged)
				require.Equal(t, queue.CodeUnauthenticated, queue.CodeOf(err), "%v", err)
				require.Equal(t, before, b.cursorStates("g"))

				endingRights(&req, looks)
				inRound, err := b.Claim(t.Context(), []queue.Assignment{{Request: &req, Target: r.target}, {Request: &req, Target: r.target}})
				require.NoError(t, err)
				for _, d := range inRound {
					require.Empty(t, d.Messages)
					require.True(t, d.Contested)
				}
				require.Equal(t, before, b.cursorStates("g"))

				endingRights(&req, looks)
				r.offered, r.taken = &req, nil
				b.push("third", fmt.Sprint(looks))
				require.Len(t, r.taken, 1)
				require.Empty(t, r.taken[0].Messages)
				require.Equal(t, queue.CodeUnauthenticated, queue.CodeOf(r.taken[0].Lost))
				r.offered = nil
				handed := *waits
				handed.AutoAck, handed.Partitions = false, 1
				third := "third"
				handed.Partition = &third
				d := b.pop(&handed)
				require.Equal(t, []string{fmt.Sprint(looks)}, transactionIDs(d))
				require.Equal(t, 1, d.Messages[0].Attempt)
				require.True(t, b.ack(d, queue.AckCompleted, d.Messages...)[0].Success)
				before = b.cursorStates("g")
			}
			d := b.pop(waits)
			require.ElementsMatch(t, []string{"a", "b", "c"}, transactionIDs(d))
		})
	}
}

// The check of an allowed, cached partition needs no query: it succeeds with a closed pool. A refused partition needs a
// query, like a partition that does not exist.
func TestOnlyAnAllowedPartitionNeedsNoLookUp(t *testing.T) {
	t.Parallel()
	pool := newPool(t, pgtest.Database(t), time.Minute)
	s := newStore(t, pool, prometheus.NewRegistry(), nil)
	pushed, err := s.Push(t.Context(), []queue.PushItem{item("p", "a")})
	require.NoError(t, err)
	id, unknown := pushed[0].PartitionID, queue.NewID()
	queuesOf := func(allowed bool, ids ...queue.ID) (map[queue.ID]string, error) {
		return s.QueuesOf(t.Context(), ids, func(at int, name string) bool { return allowed && ids[at] == id && name == "q" })
	}
	for _, allowed := range []bool{false, true} {
		found, err := queuesOf(allowed, unknown, id, id)
		require.NoError(t, err)
		require.Equal(t, map[queue.ID]string{id: "q"}, found)
	}
	pool.Close()
	found, err := queuesOf(true, id)
	require.NoError(t, err)
	require.Equal(t, map[queue.ID]string{id: "q"}, found)
	_, err = queuesOf(false, id)
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(err))
	_, err = queuesOf(true, unknown)
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(err))
}
