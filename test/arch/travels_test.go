package arch_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// maxTravelFiles is the most files a reader opens to follow one request from its route to its SQL.
const maxTravelFiles = 15

// docs/design.md lists the files of a long-poll pop, a push and an ack, in order.
func TestTheDesignPageListsFilesThatExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "docs", "design.md"))
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "## How a request travels\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	lists := strings.Split(section, "\n**")[1:]
	require.Len(t, lists, 3, "a long-poll pop, a push and an ack")
	item := regexp.MustCompile("(?m)^\\d+\\. `([^`]+)`: ")
	for _, list := range lists {
		files := item.FindAllStringSubmatch(list, -1)
		require.NotEmpty(t, files)
		require.LessOrEqual(t, len(files), maxTravelFiles)
		for _, file := range files {
			require.FileExists(t, filepath.Join(root, file[1]))
		}
	}
}
