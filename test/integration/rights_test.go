package integration_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/access/token"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// An administrator creates a token with grants, which works, and revokes it, which all servers notice. The audit names the
// administrator and never contains the token. No other role and no token with grants may do this.
func TestTokensOfTheAPI(t *testing.T) {
	t.Parallel()
	var auth token.Config
	c := startOn(t, pgtest.Database(t), func(cfg *config.Config) {
		cfg.Auth.Enabled, cfg.Auth.Secret = true, setting.Secret(strings.Repeat("s", 32))
		auth = cfg.Auth
	}).client(t)
	as := func(what call, role identity.Role, grants *identity.Grants) call {
		text, err := token.Sign(auth, token.Request{Subject: "ann", Role: role, Grants: grants, Lifetime: time.Hour}, token.SecretKey(auth.Secret.Reveal()))
		require.NoError(t, err)
		what.Token = "Bearer " + text
		return what
	}
	const body = `{"subject":"shop","role":"read-write","ttlSeconds":60,"grants":{"push":["orders.*"]}}`
	refused := map[string]call{"read-write": as(post("/api/v1/tokens", body), identity.ReadWrite, nil), "grants": as(post("/api/v1/tokens", body), identity.Admin, &identity.Grants{Admin: []string{"*"}})}
	for name, what := range refused {
		require.Equal(t, http.StatusForbidden, ask[any](c, what).Status, name)
	}
	for _, invalid := range []string{`{}`, `{"subject":"a","role":"root","ttlSeconds":1}`, `{"subject":"a","role":"admin"}`, `{"subject":"a","role":"admin","ttlSeconds":99999999}`, `{"subject":"a","role":"admin","ttlSeconds":60,"grants":{"see":["*"]}}`} {
		require.Equal(t, http.StatusBadRequest, ask[any](c.loose(), as(post("/api/v1/tokens", invalid), identity.Admin, nil)).Status, invalid)
	}
	made := ask[api.CreatedToken](c, as(post("/api/v1/tokens", body), identity.Admin, nil)).ok(http.StatusOK)
	push := func(queueName string) call {
		what := post("/api/v1/push", `{"items":[{"queue":"`+queueName+`","payload":1}]}`)
		what.Token = "Bearer " + made.Token
		return what
	}
	ask[any](c, push("orders.new")).ok(http.StatusCreated)
	require.Equal(t, `Insufficient permissions: the token has no grant to push to queue "mails"; the list push of its claim belfry does not have it`, ask[any](c, push("mails")).failure)

	revoked := ask[api.TokenRevoked](c, as(post("/api/v1/tokens/revoke", `{"token":"`+made.Token+`"}`), identity.Admin, nil)).ok(http.StatusOK)
	require.Equal(t, made.ID, revoked.ID)
	require.Eventually(t, func() bool { return ask[any](c, push("orders.new")).Status == http.StatusUnauthorized }, 30*time.Second, 10*time.Millisecond)
	listed := ask[api.Rights](c, as(get("/api/v1/rights"), identity.Admin, nil)).ok(http.StatusOK)
	require.True(t, listed.CanCreateTokens)
	require.Len(t, listed.RevokedTokens, 1)
	require.Equal(t, made.ID, listed.RevokedTokens[0].ID)
	require.NotNil(t, listed.RevokedTokens[0].ExpiresAt)
	audit := ask[api.Audit](c, as(get("/api/v1/audit"), identity.Admin, nil))
	audit.ok(http.StatusOK)
	require.Contains(t, string(audit.Raw), "token.create")
	require.Contains(t, string(audit.Raw), "token.revoke")
	require.Contains(t, string(audit.Raw), `"ann"`)
	require.NotContains(t, string(audit.Raw), made.Token)
}

// Grants of the API are the grants in SQL. Each change has one row in the audit, with the person.
func TestGrantsOfTheAPI(t *testing.T) {
	t.Parallel()
	c := startOn(t, pgtest.Database(t), func(*config.Config) {}).client(t)
	const push, consume = `{"kind":"push","role":"pg_monitor","queue":"orders.*"}`, `{"kind":"consume","role":"pg_monitor","queue":"orders.*","consumerGroup":"billing"}`
	for _, invalid := range []string{`{"kind":"read","role":"a","queue":"q"}`, `{"kind":"push","queue":"q"}`, `{"kind":"push","role":"a"}`, `{"kind":"push","role":"a","queue":"q","consumerGroup":"g"}`} {
		require.Equal(t, http.StatusBadRequest, ask[any](c.loose(), post("/api/v1/sql-grants", invalid)).Status, invalid)
	}
	require.Contains(t, ask[any](c, post("/api/v1/sql-grants", `{"kind":"push","role":"no such role","queue":"q"}`)).failure, "does not exist")
	for _, body := range []string{push, consume} {
		require.True(t, ask[api.GrantChanged](c, post("/api/v1/sql-grants", body)).ok(http.StatusOK).Granted)
	}
	listed := ask[api.Rights](c, get("/api/v1/rights")).ok(http.StatusOK)
	require.Len(t, listed.Grants, 2)
	require.Equal(t, []any{"consume", "pg_monitor", "orders.*", "billing"}, []any{listed.Grants[0].Kind, listed.Grants[0].Role, listed.Grants[0].Queue, *listed.Grants[0].ConsumerGroup})
	require.Equal(t, []bool{true, true, false}, []bool{listed.PushIsChecked, listed.PopIsChecked, listed.CanCreateTokens})
	revoke := post("/api/v1/sql-grants/revoke", `{"kind":"push","role":"pg_monitor","queue":"orders.*"}`)
	require.False(t, ask[api.GrantChanged](c, revoke).ok(http.StatusOK).Granted)
	require.Contains(t, ask[any](c, revoke).failure, "no such grant")
	require.Len(t, ask[api.Rights](c, get("/api/v1/rights")).ok(http.StatusOK).Grants, 1)
	var rows int
	c.scan(t, `SELECT count(*) FROM belfry.audit WHERE action LIKE 'grant.%' AND result = 'ok' AND address <> 'sql'`, nil, &rows)
	require.Equal(t, 3, rows)
	require.Equal(t, http.StatusBadRequest, ask[any](c, post("/api/v1/tokens", `{"subject":"a","role":"admin","ttlSeconds":60}`)).Status, "the server cannot sign")
}
