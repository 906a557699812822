package integration_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client/api"
)

// Each way to push sets the tenant of the partitions that it creates. A later push with another tenant is no error and changes
// nothing.
func TestEachPushSetsTheTenantOfANewPartition(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := s.client(t)
	push := func(path, body string) { ask[any](c, post(path, body)) }
	push("/api/v1/push", `{"items":[{"queue":"q","partition":"push","tenant":"acme"},{"queue":"q","partition":"none"},{"queue":"q","partition":"x/1"}]}`)
	push("/api/v1/push", `{"items":[{"queue":"q","partition":"push","tenant":"other"}]}`)
	push("/api/v1/transaction", `{"operations":[{"type":"push","items":[{"queue":"q","partition":"transaction","tenant":"acme"}]},
		{"type":"push","queue":"q","partition":"operation","payload":1,"tenant":"acme"}]}`)
	sql := producer(t, s.dsn)
	for _, kind := range []string{"json", "jsonb", "text"} {
		execute(t, sql, fmt.Sprintf(`SELECT belfry.push('q', '1'::%s, '%s', tenant => 'acme')`, kind, kind))
	}
	execute(t, sql, `SELECT belfry.push_many('q', ARRAY ['1', '2']::json[], '{many,many2}', tenant => 'acme')`)
	execute(t, sql, `INSERT INTO belfry.inbox (queue, partition, payload, tenant) VALUES ('q', 'inbox', '1', 'acme')`)
	execute(t, sql, `INSERT INTO belfry.inbox (queue, partition, payload, tenant) VALUES ('q', 'refused', '1', '..')`)
	_, err := sql.Exec(t.Context(), `SELECT belfry.push('q', '1'::json, tenant => '..')`)
	require.ErrorContains(t, err, "the name of the tenant is ..")
	ask[any](c, post("/api/v1/push", `{"items":[{"queue":"q","tenant":7}]}`)).refused("items[0].tenant must be a string")
	ask[any](c, call{Method: http.MethodPatch, Target: "/api/v1/resources/queues/q", Body: `{"options":{"tenantDelimiter":"/"}}`}).ok(http.StatusOK)
	push("/api/v1/push", `{"items":[{"queue":"q","partition":"acme/2"},{"queue":"q","partition":"acme"},{"queue":"q","partition":"acme/3","tenant":"beta"}]}`)
	until(t, "the row of the inbox is rejected", func() bool {
		var rejected int
		s.scan(t, `SELECT count(*) FROM belfry.inbox_rejected r WHERE r.tenant = '..' AND r.reason LIKE 'the name of the tenant%'`, nil, &rejected)
		return rejected == 1
	})
	want := map[string]string{"none": "", "x/1": "", "acme/3": "beta"}
	for _, partition := range []string{"push", "transaction", "operation", "json", "jsonb", "text", "many", "many2", "inbox", "acme/2", "acme"} {
		want[partition] = "acme"
	}
	until(t, "all partitions exist", func() bool {
		found := map[string]string{}
		for _, p := range ask[api.QueueStatus](c, get("/api/v1/status/queues/q")).ok(http.StatusOK).Partitions {
			found[p.Name] = p.Tenant
		}
		if len(found) < len(want) {
			return false
		}
		require.Equal(t, want, found)
		return true
	})
}
