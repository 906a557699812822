package contract

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDifferences(t *testing.T) {
	t.Parallel()
	const shape = `{"a": "number|null", "b": [{"c": "instant", "d": "boolean"}], "e": "figure", "f": "list", "g": "object"}`
	const right = `{"a": null, "b": [{"c": "2026-05-16T08:41:27.123Z", "d": true, "own": 1}], "e": {"avg": 1, "min": 1, "max": 1, "last": 1}, "f": [], "g": {}}`
	parse := func(text string) (value any) {
		require.NoError(t, json.Unmarshal([]byte(text), &value))
		return value
	}
	require.Empty(t, Differences(parse(shape), parse(right)))
	require.Equal(t, []string{
		"a is string, not number|null", "b[0].c is string, not instant", "b[0].d is missing", "e is list, not an object", "f is object, not list", "g is missing",
	}, Differences(parse(shape), parse(`{"a": "1", "b": [{"c": "2026-05-16T10:41:27+02:00"}], "e": [], "f": {}}`)))
	require.Equal(t, []string{"the answer is list, not an object"}, Differences(parse(shape), parse(`[]`)))
	require.Equal(t, []string{"the answer is empty, so its elements cannot be compared"}, Differences(parse(`["string"]`), parse(`[]`)))
	require.Equal(t, []string{"the answer is null, not a list"}, Differences(parse(`["string"]`), nil))
	require.Equal(t, []string{"the answer: the shape 1 is not a valid shape"}, Differences(parse(`1`), nil))
}

// docs/compatibility.md lists routes that behave for clients as in Queen MQ ("same"). Each of them needs a shape in
// testdata/queen.json. The tests in test/integration compare the answers with these shapes.
func TestEachSameRouteHasAShape(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/compatibility.md")
	require.NoError(t, err)
	shapes, err := Shapes()
	require.NoError(t, err)
	served := Served(string(page))
	require.Greater(t, len(served), 60)
	for route, how := range served {
		if how == "same" {
			require.Contains(t, shapes, route)
		}
	}
	for route := range shapes {
		require.Contains(t, []string{"same", "better"}, served[route], route)
	}
}
