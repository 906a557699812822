package httpapi_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/test/apitest"
)

// Commands, pages, the client and the guides get along without the routes that exist only because Queen MQ has them.
func TestNothingOfBelfryNeedsTheRoutesOfQueenMQ(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for _, place := range []string{"../cli", "../client", "../dashboard", "../../docs/concepts.md", "../../docs/operations.md", "../../docs/sql.md", "../../README.md"} {
		require.NoError(t, filepath.WalkDir(place, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") {
				return err
			}
			content, err := os.ReadFile(path)
			text.Write(content)
			return err
		}))
	}
	s, _ := apitest.Server(&apitest.Fakes{})
	for _, route := range httpapi.QueenRoutes(s) {
		path := regexp.MustCompile(`:[a-zA-Z]+`).ReplaceAllString(route.Path, `[^\n]{1,40}`)
		require.Empty(t, regexp.MustCompile("[ \"`]"+path+"[\"`? ]").FindString(text.String()))
	}
}
