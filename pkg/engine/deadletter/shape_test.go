package deadletter_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/deadletter"
	"github.com/belfry-mq/belfry/test/enginetest"
)

func (r *fixture) shape(failure string) (shape string) {
	r.t.Helper()
	require.NoError(r.t, r.pool.QueryRow(r.t.Context(), "SELECT belfry.error_shape($1)", failure).Scan(&shape))
	return shape
}

// Errors that differ only in numbers, ids, quoted texts and hexadecimal numbers have one shape. Other errors keep their own.
func TestTheShapeOfAnErrorLeavesOutWhatDiffers(t *testing.T) {
	r := newFixture(t)
	for failure, want := range map[string]string{
		"":                                "",
		"connection refused":              "connection refused",
		"timeout after 1500 ms":           "timeout after # ms",
		"balance is -5, not 1,000.50":     "balance is #, not #",
		"dial tcp 10.0.0.1:5432: refused": "dial tcp #: refused",
		"at 2026-05-16T08:41:27.123Z":     "at #-#-#T#Z",
		`no user "anna" in 'eu west'`:     `no user "*" in '*'`,
		"the server can't read `a b`":     "the server can't read `*`",
		"order 3F2A9C1B-1234-4abc-8def-0123456789ab is late": "order <id> is late",
		"digest deadbeef01 at 0x7ffe":                        "digest <hex> at <hex>",
		"deadbeef and facade are words":                      "deadbeef and facade are words",
		"id 01HXYZABCDEFGHJKMNPQRSTVWX failed":               "id <id> failed",
		"two\n  lines":                                       "two lines",
		"Straße № 7":                                         "Straße № #",
	} {
		require.Equal(t, want, r.shape(failure))
		require.Equal(t, want, r.shape(want), "a shape is its own shape")
	}
}

// The word at the end of the compared characters may be cut, so it does not count.
func TestTheShapeOfALongErrorEndsBeforeACutWord(t *testing.T) {
	r := newFixture(t)
	long := ""
	for len(long) < 190 {
		long += "too long "
	}
	require.Equal(t, r.shape(long+"3f2a9c1b-1234-4abc-8def-0123456789ab"), r.shape(long+"77777777-aaaa-4abc-8def-0123456789ab"))
}

// A summary counts the shapes, how many texts each has, and its first and last failure. A shape is a filter of every action.
func TestDeadLettersAreGroupedByTheShapeOfTheirErrors(t *testing.T) {
	r := newFixture(t)
	for _, failure := range []string{"timeout of 1 ms ", "timeout of 20 ms ", "refused by the shop "} {
		r.plant("q", "g", failure, 3)
	}
	all := deadletter.SummaryBounds{Examine: deadletter.MaxExamined, Groups: 10, Letters: 10}
	s, err := r.Summary(t.Context(), deadletter.Filter{}, deadletter.ListKey{}, all)
	require.NoError(t, err)
	require.Len(t, s.Errors, 3)
	require.Len(t, s.Shapes, 2)
	shape := s.Shapes[0]
	require.Equal(t, "timeout of # ms ", shape.Shape)
	require.Equal(t, "timeout of 1 ms ", shape.Error)
	require.Equal(t, []int64{6, 2}, []int64{shape.N, shape.Texts})
	require.Equal(t, 5*time.Second, shape.Newest.Sub(shape.Oldest))

	queueName, group := "q", "g"
	filter := deadletter.Filter{Queue: &queueName, Group: &group, Shape: &shape.Shape}
	s, err = r.Summary(t.Context(), filter, deadletter.ListKey{}, all)
	require.NoError(t, err)
	require.EqualValues(t, 6, s.Matched)
	require.Len(t, s.Errors, 2)
	page, err := r.List(t.Context(), filter, deadletter.ListKey{}, 100, 0)
	require.NoError(t, err)
	require.Len(t, page.Letters, 6)
	require.EqualValues(t, 6, page.Total)
	done, err := r.Purge(t.Context(), filter, false)
	require.NoError(t, err)
	require.EqualValues(t, 6, done.Taken)
	s, err = r.Summary(t.Context(), deadletter.Filter{}, deadletter.ListKey{}, all)
	require.NoError(t, err)
	require.Equal(t, []string{"q/g refused by the shop  3"}, lines(s.Errors))
}

// One summary examines 50,000 dead letters with 10,000 texts, and finds their four shapes.
func TestASummaryFindsTheShapesOfManyTexts(t *testing.T) {
	r := newFixture(t)
	r.plant("q", "g", "x", 1)
	enginetest.Exec(t, r.pool, `INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts, error, failed_at)
		SELECT d.partition_id, 1 + i, d.group_id, 3, (ARRAY['timeout of ', 'no order ', 'refused by shop ', 'bad price '])[1 + i % 4] || i % 10000 || ' for "' || i % 10000 || '"',
		       d.failed_at + make_interval(secs => i) FROM belfry.dead_letter d, generate_series(1, 50000) AS i`)
	enginetest.Exec(t, r.pool, "DELETE FROM belfry.dead_letter WHERE seq = 1")
	queueName := "q"
	for name, f := range map[string]deadletter.Filter{"all": {}, "queue": {Queue: &queueName}} {
		began := time.Now()
		s, err := r.Summary(t.Context(), f, deadletter.ListKey{}, deadletter.SummaryBounds{Examine: 10_000, Groups: 50, Letters: 50})
		t.Logf("%s, the newest 10,000: %s", name, time.Since(began))
		require.NoError(t, err)
		require.EqualValues(t, 10_000, s.Matched)
		began = time.Now()
		s, err = r.Summary(t.Context(), f, deadletter.ListKey{}, deadletter.SummaryBounds{Examine: deadletter.MaxExamined, Groups: 50, Letters: 50})
		t.Logf("%s: %s", name, time.Since(began))
		require.NoError(t, err)
		require.EqualValues(t, 50_000, s.Matched)
		require.Len(t, s.Errors, 50)
		require.Len(t, s.Shapes, 4)
		for _, shape := range s.Shapes {
			require.EqualValues(t, 12_500, shape.N, shape.Shape)
			require.EqualValues(t, 2_500, shape.Texts, shape.Shape)
		}
	}
}
