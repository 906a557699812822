package integration_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client/api"
)

// counted returns the end of GET /api/v1/dlq/count.
func (c client) counted(s *server, query string) (end api.Counted) {
	c.t.Helper()
	got := s.openStream(c.t, get("/api/v1/dlq/count?"+query)).until("closing")
	require.NoError(c.t, json.Unmarshal(got.data, &end))
	require.Equal(c.t, "done", end.Reason)
	return end
}

// A purge and a redrive with the asOf of a count take the counted dead letters, and none that came later. The dry runs, the count and
// the actions say the same number.
func TestAnActionTakesWhatWasCounted(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := s.client(t)
	fail := func(from, to int) {
		for i := from; i < to; i++ {
			c.pushIDs("q", "p", fmt.Sprint(i))
		}
		c.deadLetterAll("q", "g")
	}
	known(c, "q")
	c.pop("q", "consumerGroup=g&subscriptionMode=all")
	fail(0, 5)
	const these = "queue=q&consumerGroup=g"
	end := c.counted(s, these)
	require.EqualValues(t, 5, end.Matched)
	dry := ask[api.Purged](c, call{Method: http.MethodDelete, Target: "/api/v1/dlq?" + these + "&dryRun=true"}).ok(http.StatusOK)
	require.EqualValues(t, 5, dry.Matched)
	fail(5, 8)
	again := ask[api.Redriven](c, post("/api/v1/dlq/redrive", `{"queue":"q","consumerGroup":"g","all":true,"dryRun":true,"asOf":"`+dry.AsOf+`"}`))
	require.EqualValues(t, 5, again.ok(http.StatusOK).Matched, "later dead letters are left out")

	bounded := these + "&asOf=" + url.QueryEscape(end.AsOf)
	refused := ask[any](c, call{Method: http.MethodDelete, Target: "/api/v1/dlq?queue=q&asOf=" + url.QueryEscape(end.AsOf)})
	require.Equal(t, http.StatusBadRequest, refused.Status, "the count was of other dead letters")
	require.Equal(t, http.StatusBadRequest, ask[any](c, get("/api/v1/dlq/count")).Status, "no queue")
	purged := ask[api.Purged](c, call{Method: http.MethodDelete, Target: "/api/v1/dlq?" + bounded}).ok(http.StatusOK)
	require.Equal(t, [3]int64{5, 5, 0}, [3]int64{purged.Matched, purged.Purged, purged.Remaining})
	require.Len(t, c.dlq(these).Messages, 3)

	end = c.counted(s, these)
	fail(8, 10)
	file, err := s.send(t.Context(), post("/api/v1/dlq/purge?"+these+"&asOf="+url.QueryEscape(end.AsOf), ""))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, file.Status, string(file.Raw))
	require.Equal(t, "application/x-ndjson", file.Header.Get("Content-Type"))
	lines := strings.Split(strings.TrimSuffix(string(file.Raw), "\n"), "\n")
	require.Len(t, lines, 3)
	var first letter
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &first))
	require.Equal(t, "5", first.TransactionID)
	require.ElementsMatch(t, []string{"8", "9"}, c.dlq(these).ids())
	audited := ask[api.Audit](c, get("/api/v1/audit?action=dead_letters.purge")).ok(http.StatusOK).Entries
	require.Len(t, audited, 2)
	require.JSONEq(t, `{"deadLetters":3}`, string(audited[0].Counts))
}
