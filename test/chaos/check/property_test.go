package check_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// draw lets rapid make the choices, so that rapid can shrink a failure.
func draw(t *rapid.T) choose {
	return func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "choice") }
}

// drawRun draws a correct run.
func drawRun(t *rapid.T) *run {
	m := newModel(draw(t), rapid.IntRange(1, 3).Draw(t, "partitions"), rapid.IntRange(1, 2).Draw(t, "groups"))
	for range rapid.IntRange(0, 150).Draw(t, "steps") {
		m.step()
	}
	return m.drained()
}

func TestCorrectRunsAreNotReported(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) { require.Empty(t, drawRun(t).judge()) })
}
