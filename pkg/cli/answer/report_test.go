package answer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/cli/answer"
)

// The last line never says that nothing is wrong if a check was not done or gave a warning.
func TestVerdict(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		wrong, warnings, unknown int
		want                     string
		fails, failsStrictly     bool
	}{
		{0, 0, 0, "Nothing is wrong: 5 checks.", false, false},
		{0, 1, 0, "1 warning, nothing wrong: 5 checks.", false, true},
		{0, 2, 0, "2 warnings, nothing wrong: 5 checks.", false, true},
		{0, 1, 3, "1 warning, nothing wrong: 5 checks, 3 unknown.", false, true},
		{0, 0, 1, "Nothing is wrong in what was checked: 5 checks, 1 unknown.", false, false},
		{1, 0, 0, "Something is wrong: 5 checks, 1 wrong.", true, true},
		{1, 1, 1, "Something is wrong: 5 checks, 1 wrong, 1 warning, 1 unknown.", true, true},
		{2, 3, 0, "Something is wrong: 5 checks, 2 wrong, 3 warnings.", true, true},
	} {
		raw := fmt.Sprintf(`{"healthy": %t, "wrong": %d, "warnings": %d, "unknown": %d, "checks": [{}, {}, {}, {}, {}]}`, c.wrong == 0, c.wrong, c.warnings, c.unknown)
		report, err := answer.ReadReport([]byte(raw))
		require.NoError(t, err)
		lines := strings.Split(report.Text(), "\n")
		require.Equal(t, c.want, lines[len(lines)-1], raw)
		require.Equal(t, c.fails, report.Fails(false), raw)
		require.Equal(t, c.failsStrictly, report.Fails(true), raw)
	}
}
