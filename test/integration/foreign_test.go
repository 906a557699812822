package integration_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A page of another origin can send a GET, but cannot read the answer. So the server must refuse such a GET if it changes
// state, and must serve all others. The test sends each documented GET twice: as such a page, and as a program.
func TestAGetOfAForeignPageChangesNothing(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := s.client(t)
	c.configureTagged("q", "shop")
	partitionID := c.pushIDs("q", "p", "m", "n", "o", "x")[0].PartitionID
	loaded, err := document()
	require.NoError(t, err)
	names := map[string]string{"queue": "q", "partition": "p", "partitionId": partitionID, "transactionId": "m", "name": "trace"}
	status := func(target string, foreign bool) int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.base+target, http.NoBody)
		require.NoError(t, err)
		if foreign {
			request.Header.Set("Origin", "https://evil.example")
			request.Header.Set("Sec-Fetch-Site", "cross-site")
		}
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close(), "the body must close, even of a stream that has not ended")
		return response.StatusCode
	}
	state := func() (digest string) {
		s.scan(t, stateOf, nil, &digest)
		return digest
	}
	changing := 0
	for i, operation := range loaded.Operations() {
		path, isGet := strings.CutPrefix(operation, http.MethodGet+" ")
		if !isGet {
			continue
		}
		group := fmt.Sprint("group-", i)
		path = regexp.MustCompile(`{([A-Za-z]+)}`).ReplaceAllStringFunc(path, func(parameter string) string {
			if name := names[strings.Trim(parameter, "{}")]; name != "" {
				return name
			}
			return group
		})
		target := path + "?consumerGroup=" + group + "&subscriptionMode=all&namespace=shop"
		before := state()
		refused := status(target, true) == http.StatusForbidden
		require.Equal(t, before, state(), target)
		own := status(target, false)
		require.NotEqual(t, http.StatusForbidden, own, target)
		changes := state() != before
		require.Equal(t, changes, refused, "%s changes state or was refused, but not both; as a program it got %d", target, own)
		if changes {
			changing++
		}
	}
	require.GreaterOrEqual(t, changing, 3, "at least the pops and the stream of a queue change state")
}
