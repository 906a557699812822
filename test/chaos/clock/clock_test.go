package clock

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// makeSteppable refuses a source text of package time that it does not know. With an unchanged source text, the clock would
// never step.
func TestUnexpectedSourcesAreRefused(t *testing.T) {
	t.Parallel()
	const good = "package time\n\nimport (\n)\n\nfunc Now() Time {\n\tsec, nsec, mono := runtimeNow()\n}\n"
	changed, err := makeSteppable(good)
	require.NoError(t, err)
	require.Contains(t, changed, "runtimeNow()\n\tsec, nsec = stepped(sec, nsec)\n")
	for _, edit := range edits {
		_, err := makeSteppable(strings.Replace(good, edit.old, "", 1))
		require.ErrorContains(t, err, "0 times")
		_, err = makeSteppable(good + edit.old)
		require.ErrorContains(t, err, "2 times")
	}
}
