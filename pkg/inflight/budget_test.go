package inflight_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/inflight"
)

func TestBudget(t *testing.T) {
	t.Parallel()
	const body = 1 << 20
	b := inflight.NewBudget(2 * body * inflight.BodyCopies)
	first, ok := b.TakeBody(body)
	require.True(t, ok)
	second, ok := b.TakeBody(body)
	require.True(t, ok)
	require.True(t, b.Full())
	require.Zero(t, b.AnswerBytes())

	_, ok = b.TakeBody(1)
	require.False(t, ok, "a body beyond the budget is refused")
	require.Equal(t, first+second, b.Used(), "a refused body reserves nothing")

	answer := b.HoldAnswer(body)
	require.Greater(t, b.Used(), first+second, "an answer is never refused")
	b.GiveBack(first)
	b.GiveBack(second)
	b.GiveBack(answer)
	require.Zero(t, b.Used())
	require.Positive(t, b.AnswerBytes())
}
