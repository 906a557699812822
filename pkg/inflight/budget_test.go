package inflight_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/inflight"
)

func TestBudget(t *testing.T) {
	t.Parallel()
	const body = 1 << 20
	b := inflight.NewBudget(4 * body * inflight.BodyCopies)
	first, ok := b.TakeBody(body)
	require.True(t, ok)
	second, ok := b.TakeBody(body)
	require.True(t, ok)
	require.False(t, b.FullOfAnswers(), "bodies take nothing from answers")

	_, ok = b.TakeBody(1)
	require.False(t, ok, "a body beyond the budget is refused")
	require.Equal(t, first+second, b.Used(), "a refused body reserves nothing")

	answer := b.HoldAnswer(4 * body)
	require.True(t, b.FullOfAnswers())
	require.Zero(t, b.AnswerBytes())
	require.Greater(t, b.Used(), first+second, "an answer is never refused")
	b.GiveBackBody(first)
	b.GiveBackBody(second)
	b.GiveBackAnswer(answer)
	require.Zero(t, b.Used())
	require.Positive(t, b.AnswerBytes())
}
