package inflight_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/process/inflight"
)

func TestBodies(t *testing.T) {
	t.Parallel()
	const body = 1 << 20
	b := inflight.NewBudget(4*body*inflight.BodyCopies, 1<<20)
	first, second := b.Reservation(), b.Reservation()
	anna, bert := bodyOf(first, "anna"), bodyOf(second, "bert")
	require.True(t, anna.Take(body))
	require.True(t, bert.Take(body/2))
	require.True(t, bert.Take(body/2), "a body takes memory as it arrives")
	carl := bodyOf(b.Reservation(), "carl")
	require.True(t, anna.Arrived())
	require.True(t, bert.Arrived())
	require.False(t, carl.Take(1), "bodies get only half of the budget")
	require.False(t, carl.Arrived())
	require.EqualValues(t, 2*body*inflight.BodyCopies, b.Used(), "a refused body reserves nothing")
	require.True(t, second.TakeAnswer(1), "bodies use no memory of answers")

	first.End()
	require.True(t, bodyOf(second, "carl").Take(body))
	second.End()
	require.False(t, bert.Take(0), "a request that has ended reserves nothing")
	require.False(t, bodyOf(second, "bert").Take(1))
	require.Zero(t, b.Used())
}

// bodyOf begins a body that must not lose its memory.
func bodyOf(r *inflight.Reservation, caller string) *inflight.Body {
	return r.Body(caller, func() { panic("the body lost its memory") })
}

// A body that arrives slowly loses its memory to any other body, even if its first bytes arrived fast. A body that arrives fast,
// or is complete, keeps its memory.
func TestSlowBodiesLoseTheirMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const body = 4 << 20
		b := inflight.NewBudget(2*4*body*inflight.BodyCopies, 2*4*body*inflight.BodyCopies)
		lost := 0
		slow := b.Reservation().Body("anna", func() { lost++ })
		arrived, fast := bodyOf(b.Reservation(), "anna"), bodyOf(b.Reservation(), "bert")
		require.True(t, slow.Take(body-8000))
		require.True(t, arrived.Take(body))
		require.True(t, arrived.Arrived())
		require.True(t, fast.Take(body))
		for range 8 { // 4 s
			time.Sleep(time.Second / 2)
			require.True(t, slow.Take(1000))
			require.True(t, fast.Take(body/8))
		}
		require.Zero(t, lost, "the budget had free memory")
		same := bodyOf(b.Reservation(), "anna")
		require.True(t, same.Take(body/8), "a slow body loses its memory also to a body of its own caller")
		require.Equal(t, 1, lost)
		require.True(t, slow.Lost())
		require.False(t, slow.Take(1))
		require.False(t, slow.Arrived())
		require.EqualValues(t, (3*body+body/8)*inflight.BodyCopies, b.Used())
	})
}

// A caller can use seven eighths of the memory while no other caller has bodies. Callers below their share take memory from a
// caller above its share, and lose none to it.
func TestCallersHaveShares(t *testing.T) {
	t.Parallel()
	const part = 1 << 20
	b := inflight.NewBudget(2*8*part*inflight.BodyCopies, 2*8*part*inflight.BodyCopies)
	requests, lost := map[*inflight.Body]*inflight.Reservation{}, map[string]int{}
	begin := func(caller string) *inflight.Body {
		r := b.Reservation()
		body := r.Body(caller, func() { lost[caller]++ })
		requests[body] = r
		return body
	}
	alone := begin("anna")
	require.True(t, alone.Take(8*part), "the only body of a caller can use all memory")
	requests[alone].End()
	for range 7 {
		require.True(t, begin("anna").Take(part))
	}
	require.False(t, begin("anna").Take(part), "an eighth of the memory is left to other callers")

	for range 4 {
		require.True(t, begin("bert").Take(part))
	}
	require.Equal(t, map[string]int{"anna": 3}, lost, "bert takes the memory of his share from anna")
	require.False(t, begin("bert").Take(1))
	require.False(t, begin("anna").Take(1), "anna has her whole share and gets no more memory")
	require.True(t, begin("carl").Take(2*part))
	require.Equal(t, 5, lost["anna"]+lost["bert"])
	require.EqualValues(t, 8*part*inflight.BodyCopies, b.Used())
	for _, r := range requests {
		r.End()
	}
	require.Zero(t, b.Used())
	require.True(t, begin("dora").Take(8*part), "all memory is free again")
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	const answer = 1 << 20
	b := inflight.NewBudget(4*answer*inflight.AnswerCopies, 1<<20)
	first, second := b.Reservation(), b.Reservation()
	require.EqualValues(t, answer, first.AnswerBytesLeft(), "an answer of this size leaves memory for another one")
	require.True(t, first.TakeAnswer(3*answer), "a larger answer fits if it is the only one")
	require.Zero(t, second.AnswerBytesLeft())
	require.False(t, second.TakeAnswer(1))
	require.True(t, bodyOf(second, "").Take(1), "answers use no memory of bodies")

	first.ReturnAnswer(2 * answer)
	require.False(t, second.TakeAnswer(answer+1))
	require.True(t, second.TakeAnswer(answer))
	first.End()
	first.ReturnAnswer(answer)
	second.End()
	require.Zero(t, b.Used())
}

// Read reserves memory as rows arrive, unless the answer is small. StartPage reserves memory before the page is read, and leaves
// memory for other answers.
func TestReads(t *testing.T) {
	t.Parallel()
	const answer = 1 << 20
	b := inflight.NewBudget(4*answer*inflight.AnswerCopies, answer)
	first, second := b.Reservation(), b.Reservation()
	require.True(t, first.Read(inflight.FreeAnswer))
	require.Zero(t, b.Used(), "a small answer needs no memory")
	require.True(t, first.Read(1))
	require.EqualValues(t, (inflight.FreeAnswer+1)*inflight.AnswerCopies, b.Used(), "a larger answer needs memory for all its bytes")

	require.True(t, first.StartPage())
	require.Greater(t, b.Used(), int64(answer/2*inflight.AnswerCopies), "a page reserves before it is read")
	first.Trim()
	require.EqualValues(t, (inflight.FreeAnswer+1)*inflight.AnswerCopies, b.Used(), "Trim returns the unused memory")
	require.True(t, first.Read(answer))
	require.Negative(t, first.PageBytesLeft(), "the page has reached its limit")
	require.Positive(t, second.PageBytesLeft())
	require.False(t, second.Read(answer))
	require.True(t, b.Reservation().Read(100), "a small answer needs no memory")

	second.Cover(2 * answer)
	require.Greater(t, b.Used(), int64(2*answer*inflight.AnswerCopies), "an existing answer counts, even beyond the budget")
	require.False(t, b.Reservation().StartPage())
	first.End()
	second.End()
	require.False(t, first.Read(answer))
	first.Cover(answer)
	require.Zero(t, b.Used())
}
