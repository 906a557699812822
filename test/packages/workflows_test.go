//go:build installed

package packages_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// pinned matches an action with the hash of its commit. A tag could be moved to other code.
var pinned = regexp.MustCompile(`^[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)

func TestWorkflows(t *testing.T) {
	t.Parallel()
	output(t, "make", "-C", "../..", "release-tools")
	files, err := filepath.Glob("../../.github/workflows/*.yml")
	require.NoError(t, err)
	require.Len(t, files, 2)
	output(t, "../../.bin/actionlint", append([]string{"-shellcheck=", "-pyflakes="}, files...)...)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, use := range regexp.MustCompile(`uses: (.*)`).FindAllStringSubmatch(string(text), -1) {
			require.Regexp(t, pinned, use[1], file)
		}
		var workflow struct {
			Permissions map[string]string
			Jobs        map[string]struct {
				Permissions map[string]string
				Timeout     int `yaml:"timeout-minutes"`
			}
		}
		require.NoError(t, yaml.Unmarshal(text, &workflow))
		require.NotNil(t, workflow.Permissions, "%s: without permissions, a token may do more than it needs", file)
		require.NotContains(t, workflow.Permissions, "write-all", file)
		for name, job := range workflow.Jobs {
			require.NotZero(t, job.Timeout, "%s: job %s", file, name)
			for scope, right := range workflow.Permissions {
				require.Equal(t, "read", right, "%s: %s: a job that writes says so itself", file, scope)
			}
		}
	}
}
