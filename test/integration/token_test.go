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
	"github.com/belfry-mq/belfry/test/pgtest"
)

// With tokens enabled, a refused request must store nothing. Each message must carry the subject of the token that pushed
// it, in every answer that shows the message.
func TestTokensGuardTheServer(t *testing.T) {
	t.Parallel()
	var auth token.Config
	c := startOn(t, pgtest.Database(t), func(cfg *config.Config) {
		cfg.Auth.Enabled, cfg.Auth.Secret = true, setting.Secret(strings.Repeat("s", 32))
		auth = cfg.Auth
	}).client(t)
	made := func(key string, role identity.Role) string {
		text, err := token.Sign(auth, token.Request{Subject: "billing", Role: role, Lifetime: time.Hour}, token.SecretKey(key))
		require.NoError(t, err)
		return "Bearer " + text
	}
	as := func(what call, role identity.Role) call { what.Token = made(auth.Secret.Reveal(), role); return what }
	push := post("/api/v1/push", `{"items":[{"queue":"q","transactionId":"t","payload":1,"producerSub":"mallory"}]}`)
	transaction := post("/api/v1/transaction", `{"operations":[{"type":"push","items":[{"queue":"q","transactionId":"u","payload":1}]}]}`)

	for _, what := range []call{push, transaction, get("/api/v1/pop/queue/q?consumerGroup=g")} {
		require.Equal(t, "Authentication required", ask[any](c, what).failure)
		forged := what
		forged.Token = made(strings.Repeat("f", 32), identity.Admin)
		require.Equal(t, "Invalid token signature", ask[any](c, forged).failure)
		forged.Token = "nonsense"
		require.Equal(t, "Invalid token format", ask[any](c, forged).failure)
		require.Equal(t, http.StatusForbidden, ask[any](c, as(what, identity.ReadOnly)).Status)
	}
	var queues, groups int
	c.scan(t, `SELECT (SELECT count(*) FROM belfry.queue), (SELECT count(*) FROM belfry.consumer_group)`, nil, &queues, &groups)
	require.Zero(t, queues+groups, "a refused request must store nothing")

	ask[any](c.loose(), as(push, identity.ReadWrite)).ok(http.StatusCreated) // producerSub is not documented
	ask[any](c, as(transaction, identity.ReadWrite)).ok(http.StatusOK)
	type message struct {
		TransactionID string `json:"transactionId"`
		PartitionID   string `json:"partitionId"`
		ProducerSub   string `json:"producerSub"`
	}
	type list struct{ Messages []message }
	requireProducer := func(list list) {
		t.Helper()
		require.Len(t, list.Messages, 2)
		for _, m := range list.Messages {
			require.Equal(t, "billing", m.ProducerSub)
		}
	}
	popped := ask[list](c, as(get("/api/v1/pop/queue/q?batch=10&consumerGroup=g"), identity.ReadWrite)).ok(http.StatusOK)
	requireProducer(popped)
	requireProducer(ask[list](c, as(get("/api/v1/messages?queue=q"), identity.ReadOnly)).ok(http.StatusOK))
	for _, m := range popped.Messages {
		ask[any](c, as(post("/api/v1/messages/"+m.PartitionID+"/"+m.TransactionID+"/dlq", `{"consumerGroup":"g"}`), identity.ReadWrite)).ok(http.StatusOK)
	}
	requireProducer(ask[list](c, as(get("/api/v1/dlq?queue=q"), identity.ReadOnly)).ok(http.StatusOK))
	remove := call{Method: http.MethodDelete, Target: "/api/v1/resources/queues/q"}
	require.Equal(t, "Insufficient permissions: this request needs the role admin, and the caller has the role read-write", ask[any](c, as(remove, identity.ReadWrite)).failure)
	ask[any](c, as(remove, identity.Admin)).ok(http.StatusOK)
	audit := get("/api/v1/audit?action=queue.delete")
	require.Equal(t, http.StatusForbidden, ask[any](c, as(audit, identity.ReadWrite)).Status)
	deleted := ask[any](c, as(audit, identity.Admin))
	deleted.ok(http.StatusOK)
	require.Contains(t, string(deleted.Raw), `"billing"`, "the audit must name the subject that deleted the queue")

	for _, open := range []string{"/livez", "/readyz", "/health", "/metrics/prometheus", "/openapi.json"} {
		got, err := c.send(t.Context(), get(open))
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, got.Status, open)
		require.NotContains(t, string(got.Raw), `queue="`, "metrics without a token must name no queue")
		require.NotContains(t, string(got.Raw), `group="`)
	}
}
