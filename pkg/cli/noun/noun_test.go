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
	for _, v := range slices.Concat(queueVerbs, partitionVerbs, groupVerbs, deadLetterVerbs, messageVerbs, namespaceVerbs, taskVerbs,
		traceVerbs, streamVerbs, maintenanceVerbs, serverVerbs) {
		require.NotEmpty(t, v.Columns, v.Use)
		require.NotPanics(t, func() {
			require.NoError(t, printer.Answer([]byte("{}"), "", v.Columns))
			require.NoError(t, printer.Answer([]byte("{}"), "", v.PreviewColumns))
		}, v.Use)
	}
}
