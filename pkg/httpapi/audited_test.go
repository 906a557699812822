package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/test/apitest"
)

// An entry has the principal, the address behind trusted proxies, and the request id of the client or a new one.
func TestAnEntryOfTheAuditSaysWhoAndFromWhere(t *testing.T) {
	t.Parallel()
	for sent, kept := range map[string]bool{
		"": false, "r-1 (deploy)": true, strings.Repeat("x", 64): true, strings.Repeat("x", 65): false, "caf\xc3\xa9": false, "a\tb": false,
	} {
		f := &apitest.Fakes{}
		s, _ := apitest.Server(f, func(cfg *httpapi.Config, _ *httpapi.Deps) { cfg.TrustedProxies = []string{"192.0.2.0/24"} })
		r := apitest.Request(http.MethodDelete, "/api/v1/resources/queues/orders", "")
		r.Header.Set("X-Request-Id", sent)
		r.Header.Set("X-Forwarded-For", "10.1.2.3")
		r.RemoteAddr = "192.0.2.7:1234"
		r = r.WithContext(identity.With(r.Context(), &identity.Principal{Subject: "an\x00na", TokenID: "t\xff1"}))
		rec := apitest.SendOK(t, s, r)
		require.Len(t, f.Audit.Entries, 1)
		entry := f.Audit.Entries[0]
		require.Equal(t, entry.RequestID, rec.Header().Get("X-Request-Id"))
		require.Equal(t, kept, entry.RequestID == sent, "%q", sent)
		require.NotEmpty(t, entry.RequestID)
		require.Equal(t, []string{"10.1.2.3", "an\uFFFDna", "t\uFFFD1", "ok"}, []string{entry.Address, entry.Subject, entry.TokenID, f.Audit.Results[0]})
	}
}
