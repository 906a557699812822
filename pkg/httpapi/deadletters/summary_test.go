package deadletters_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/deadletter"
	"github.com/belfry-mq/belfry/test/apitest"
)

// A summary has the shapes of the errors. A list and a summary take a shape as a filter.
func TestShapesAreListedAndFilter(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 16, 12, 0, 0, 0, time.UTC)
	f := &apitest.Fakes{DeadLetters: apitest.DeadLetters{Summary: deadletter.Summary{Shapes: []deadletter.Count{
		{Queue: "q", Group: "g", Shape: "timeout after # ms", Error: "timeout after 5 ms", Texts: 3, N: 7, Oldest: at, Newest: at.Add(time.Minute)},
	}}}}
	rec := apitest.Call(f, http.MethodGet, "/api/v1/dlq/summary?errorShape=timeout%20after%20%23%20ms", "")
	require.Equal(t, http.StatusOK, rec.Code)
	var found api.DeadLetterSummary
	require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &found))
	require.Equal(t, []api.DeadLetterShape{{
		Queue: "q", ConsumerGroup: "g", ErrorShape: "timeout after # ms", Example: "timeout after 5 ms", Texts: 3, Count: 7, Oldest: at, Newest: at.Add(time.Minute),
	}}, found.Shapes)
	require.Nil(t, found.Total, "a count of a shape is not kept")
	require.Equal(t, "timeout after # ms", *f.DeadLetters.Filter.Shape)
	require.Nil(t, f.DeadLetters.Filter.Error)
	apitest.Call(f, http.MethodGet, "/api/v1/dlq?errorShape=x", "")
	require.Equal(t, "x", *f.DeadLetters.Filter.Shape)
	require.Equal(t, "errorShape contains a NUL character or is not UTF-8", apitest.RequireError(t, apitest.Call(f, http.MethodGet, "/api/v1/dlq?errorShape=%00", ""), http.StatusBadRequest))
}
