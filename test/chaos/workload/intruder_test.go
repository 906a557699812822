package workload

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/chaos/principals"
)

// Each kind of token has its own allowed answers. Only a tenant may receive the answer that an object does not exist.
func TestIntrudersMustBeRefused(t *testing.T) {
	t.Parallel()
	type answer struct {
		status int
		body   string
	}
	unauthenticated, forbidden := answer{http.StatusUnauthorized, ""}, answer{http.StatusForbidden, ""}
	missing, hidden := answer{http.StatusNotFound, ""}, answer{http.StatusOK, `[{"success":false,"error":"Message not found"}]`}
	done, empty, down := answer{http.StatusOK, `{"success":true}`}, answer{http.StatusNoContent, ""}, answer{http.StatusServiceUnavailable, ""}
	for _, c := range []struct {
		tenant, reader, invalid answer
		complaints              bool
	}{
		{forbidden, forbidden, unauthenticated, false},
		{missing, forbidden, unauthenticated, false},
		{hidden, forbidden, unauthenticated, false},
		{down, down, down, false},
		{done, forbidden, unauthenticated, true},
		{empty, forbidden, unauthenticated, true},
		{unauthenticated, forbidden, unauthenticated, true},
		{forbidden, missing, unauthenticated, true},
		{forbidden, done, unauthenticated, true},
		{forbidden, forbidden, forbidden, true},
		{forbidden, forbidden, hidden, true},
	} {
		clients, _ := clientsOn(t, func(w http.ResponseWriter, r *http.Request) {
			got := c.invalid
			switch r.Header.Get("Authorization") {
			case "Bearer " + principals.Tenant:
				got = c.tenant
			case "Bearer " + principals.Reader:
				got = c.reader
			}
			answerWith(got.status, got.body)(w, r)
		})
		intruder := clients.client("malformed")
		require.True(t, intruder.intrude(t.Context(), http.DefaultClient), "before the first delivery, intrude sends nothing")
		require.Zero(t, clients.Counts())
		clients.target.Store(&target{queueName(0), "billing", "a partition", "a message", "a lease"})
		for range 60 {
			require.True(t, intruder.intrude(t.Context(), intruder.once))
		}
		require.Equal(t, c.complaints, len(clients.Complaints()) > 0, "%+v", c)
		counts := clients.Counts()
		require.Equal(t, c.tenant == down, counts.IntrusionsRefused == 0)
		require.Equal(t, c.tenant == down, counts.MalformedUnavailable == 60)
	}
}
