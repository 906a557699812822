package inflight_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/inflight"
)

func TestBodies(t *testing.T) {
	t.Parallel()
	const body = 1 << 20
	b := inflight.NewBudget(4 * body * inflight.BodyCopies)
	first, second := b.Reservation(), b.Reservation()
	require.True(t, first.TakeBody(body))
	require.True(t, second.TakeBody(body/2))
	require.True(t, second.TakeBody(body/2), "a body takes memory as it arrives")
	require.False(t, second.TakeBody(1), "a body beyond its half of the budget is refused")
	require.EqualValues(t, 2*body*inflight.BodyCopies, b.Used(), "and reserves nothing")
	require.True(t, second.TakeAnswer(1), "bodies take nothing from answers")

	first.End()
	require.True(t, second.TakeBody(body))
	second.End()
	require.False(t, second.TakeBody(0), "a request that has ended takes nothing more")
	require.Zero(t, b.Used())
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	const answer = 1 << 20
	b := inflight.NewBudget(4 * answer * inflight.AnswerCopies)
	first, second := b.Reservation(), b.Reservation()
	require.EqualValues(t, answer, first.AnswerBytesLeft(), "half of what is left: another answer has room")
	require.True(t, first.TakeAnswer(3*answer), "a larger answer has room if it is the only one")
	require.Zero(t, second.AnswerBytesLeft())
	require.False(t, second.TakeAnswer(1))
	require.True(t, second.TakeBody(1), "answers take nothing from bodies")

	first.ReturnAnswer(2 * answer)
	require.False(t, second.TakeAnswer(answer+1))
	require.True(t, second.TakeAnswer(answer))
	first.End()
	first.ReturnAnswer(answer)
	second.End()
	require.Zero(t, b.Used())
}
