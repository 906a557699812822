package noun

import (
	"io"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/cli/output"
)

// Each verb has columns whose options are known, so its tables can be printed.
func TestTablesOfAllVerbsCanBePrinted(t *testing.T) {
	t.Parallel()
	printer, err := output.New(io.Discard, "wide", false, false)
	require.NoError(t, err)
	for _, v := range slices.Concat(queueVerbs, partitionVerbs, groupVerbs, deadLetterVerbs, messageVerbs, scheduleVerbs, namespaceVerbs, taskVerbs,
		traceVerbs, streamVerbs, maintenanceVerbs, serverVerbs) {
		require.NotEmpty(t, v.Columns, v.Use)
		require.NotPanics(t, func() {
			require.NoError(t, printer.Answer([]byte("{}"), "", v.Columns))
			require.NoError(t, printer.Answer([]byte("{}"), "", v.PreviewColumns))
		}, v.Use)
	}
}

// --to of a move is an instant, a time from now, or now.
func TestAMoveGoesToAnInstantOrATimeFromNow(t *testing.T) {
	t.Parallel()
	for to, want := range map[string]map[string]any{
		"now": {"visibleAt": nil}, "15m": {"delaySeconds": 900.0}, "2d": {"delaySeconds": 172800.0},
		"2026-05-16T10:41:27+02:00": {"visibleAt": "2026-05-16T08:41:27Z"},
	} {
		body, err := moveBody(to)
		require.NoError(t, err, to)
		require.Equal(t, want, body, to)
	}
	for _, to := range []string{"", "-15m", "tomorrow"} {
		_, err := moveBody(to)
		require.ErrorContains(t, err, "a duration from now such as 15m", to)
	}
}
