package store_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/process/inflight"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// A pop without memory for its messages is refused. The messages are ready as before, and no delivery
// is counted. When the size of the messages is known, the refused pop makes no claim. With memory it
// delivers, and holds as much as the messages need.
func TestAPopWithoutMemoryGivesItsMessagesBack(t *testing.T) {
	t.Parallel()
	const size = payloadBytes + 330
	for _, autoAck := range []bool{false, true} {
		t.Run(fmt.Sprintf("autoAck=%t", autoAck), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.register("g")
			b.pushPayloads("a", 2, false)
			budget := inflight.NewBudget(2*inflight.AnswerCopies*4*size, 1<<20)
			others := budget.Reservation()
			require.True(t, others.TakeAnswer(4*size-size/2))
			held := budget.Used()
			req := request("g", 2)
			req.AutoAck, req.Memory = autoAck, budget.Reservation()
			before, flushes := b.cursorStates("g"), int(enginetest.Metric(b.t, b.reg, "belfry_batch_calls", "claim"))+int(enginetest.Metric(b.t, b.reg, "belfry_batch_calls", "take"))
			for range 2 {
				_, err := b.Pop(t.Context(), req)
				require.Equal(t, queue.CodeOverloaded, queue.CodeOf(err), "%v", err)
				require.Equal(t, before, b.cursorStates("g"))
				require.Equal(t, held, budget.Used())
			}
			require.Equal(t, 1, int(enginetest.Metric(b.t, b.reg, "belfry_batch_calls", "claim"))+int(enginetest.Metric(b.t, b.reg, "belfry_batch_calls", "take"))-flushes, "the second pop makes no claim")
			target, _, err := b.Resolve(t.Context(), req)
			require.NoError(t, err)
			inRound, err := b.Claim(t.Context(), []queue.Assignment{{Request: req, Target: target}})
			require.NoError(t, err)
			require.True(t, inRound[0].Contested)
			require.Empty(t, inRound[0].Messages)
			require.Equal(t, before, b.cursorStates("g"))

			others.End()
			d := b.pop(req)
			require.Equal(t, []string{"a0"}, transactionIDs(d), "half of the memory is left to other pops")
			require.EqualValues(t, d.Messages[0].AnswerSize()*inflight.AnswerCopies, budget.Used())
			empty := request("g", 100)
			empty.Memory = budget.Reservation()
			if !autoAck {
				require.Empty(t, b.pop(empty).Messages)
				require.EqualValues(t, d.Messages[0].AnswerSize()*inflight.AnswerCopies, budget.Used(), "an empty pop holds nothing")
			}
		})
	}
}

// A push whose waiting request has no memory hands nothing over, and leaves the message ready.
func TestAHandoffWithoutMemoryLeavesTheMessageReady(t *testing.T) {
	t.Parallel()
	budget := inflight.NewBudget(2*inflight.AnswerCopies*10_000, 1<<20)
	others := budget.Reservation()
	require.True(t, others.TakeAnswer(9_500))
	req := request("g", 1)
	req.Memory = budget.Reservation()
	b, r := waiting(t, req)
	b.push("p", "a")
	require.Len(t, r.taken, 1)
	require.Empty(t, r.taken[0].Messages)
	others.End()
	require.Zero(t, budget.Used())
	require.Equal(t, []string{"a"}, transactionIDs(b.pop(req)))
}
