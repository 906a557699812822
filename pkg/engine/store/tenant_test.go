package store_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// tenants returns the partitions of queue q that have a tenant, with the tenant of each cursor: "partition: tenant [cursors]".
func (b *bench) tenants() []string {
	b.t.Helper()
	return b.texts(`SELECT format('%s: %s %s', p.name, t.name, ARRAY (
		SELECT (SELECT u.name FROM belfry.tenant u WHERE u.id = c.tenant_id) FROM belfry.cursor c WHERE c.partition_id = p.id ORDER BY c.group_id))
		  FROM belfry.partition p JOIN belfry.tenant t ON t.id = p.tenant_id AND t.queue_id = p.queue_id ORDER BY p.name`)
}

// texts returns the first column of a query.
func (b *bench) texts(query string) []string {
	b.t.Helper()
	all, err := postgres.Collect(b.t.Context(), b.pool, query, pgx.RowTo[string])
	require.NoError(b.t, err)
	return all
}

func (b *bench) pushTenant(partition, tenant string) {
	b.t.Helper()
	_, err := b.Push(b.t.Context(), []queue.PushItem{{Queue: "q", Partition: partition, Tenant: tenant, Payload: []byte(`{}`)}})
	require.NoError(b.t, err)
}

// A partition gets the tenant of the push that creates it, and keeps it. Cursors have the tenant of their partition, also those of
// a group that joins later.
func TestThePushThatCreatesAPartitionSetsItsTenant(t *testing.T) {
	b := newBench(t, "early")
	b.pushTenant("a", "acme")
	b.pushTenant("a", "zoo")
	b.pushTenant("none", "")
	_, err := b.Push(t.Context(), []queue.PushItem{
		{Queue: "q", Partition: "b", Payload: []byte(`1`)}, {Queue: "q", Partition: "b", Tenant: "beta", Payload: []byte(`2`)},
		{Queue: "q", Partition: "b", Tenant: "zoo", Payload: []byte(`3`)}, {Queue: "q", Partition: "c", Tenant: "acme", Payload: []byte(`4`)},
		{Queue: "q", Partition: "d/1", Payload: []byte(`5`)},
	})
	require.NoError(t, err)
	b.pop(request("late", 1))
	require.Equal(t, []string{"a: acme {acme,acme}", "b: beta {beta,beta}", "c: acme {acme,acme}"}, b.tenants())
	require.Equal(t, []string{"acme", "beta"}, b.texts(`SELECT name FROM belfry.tenant ORDER BY name`), "a tenant without partitions is not stored")
}

// With tenantDelimiter, the name of a new partition up to the delimiter is its tenant. The tenant of the push comes before.
func TestTheNameOfAPartitionHasItsTenant(t *testing.T) {
	b := newBench(t, "g")
	b.pushTenant("before/1", "")
	b.option("tenant_delimiter = '/'")
	for _, partition := range []string{"acme/1", "acme/2/x", "beta", "/none"} {
		b.pushTenant(partition, "")
	}
	b.pushTenant("acme/3", "other")
	require.Equal(t, []string{"acme/1: acme {acme}", "acme/2/x: acme {acme}", "acme/3: other {other}", "beta: beta {beta}"}, b.tenants())
}

// A tenant is deleted with its last partition.
func TestTheLastPartitionTakesItsTenantAlong(t *testing.T) {
	b := newBench(t)
	b.pushTenant("a", "acme")
	b.pushTenant("b", "acme")
	b.exec(`DELETE FROM belfry.message`)
	remove := func(partition string) {
		b.exec(`SELECT belfry.remove_idle_partition((SELECT p.id FROM belfry.partition p WHERE p.name = $1), interval '0')`, partition)
	}
	remove("a")
	require.Equal(t, []string{"b: acme {}"}, b.tenants())
	remove("b")
	require.Empty(t, b.texts(`SELECT name FROM belfry.tenant`))
}

// A session creates a partition of a tenant while another session deletes the last partition of the tenant. The new partition has a
// stored tenant, whichever of them is first.
func TestATenantStaysForANewPartition(t *testing.T) {
	const open, remove = `SELECT belfry.open_partitions('{q}', ARRAY [$1], 60, 3, p_tenants => '{acme}')`,
		`SELECT belfry.remove_idle_partition(p.id, interval '0') FROM belfry.partition p WHERE p.name = $1`
	for first, then := range map[string]string{open: remove, remove: open} {
		b := newBench(t)
		b.exec(open, "old")
		names := map[string]string{open: "new", remove: "old"}
		tx, err := b.pool.Begin(t.Context())
		require.NoError(t, err)
		enginetest.Exec(t, tx, first, names[first])
		var work errgroup.Group
		done := make(chan struct{})
		work.Go(func() error {
			defer close(done)
			_, err := b.pool.Exec(t.Context(), then, names[then])
			return err
		})
		if then == open {
			b.awaitLock(done)
		} else {
			<-done // the deletion of the partition waits for nothing
		}
		require.NoError(t, tx.Commit(t.Context()))
		require.NoError(t, work.Wait())
		require.Equal(t, []string{"new: acme {}"}, b.tenants(), "%s is first", first)
	}
}

// awaitLock returns when a session waits for a lock, or when done is closed.
func (b *bench) awaitLock(done <-chan struct{}) {
	b.t.Helper()
	enginetest.Await(b.t, "a session waits for a lock", func() bool {
		select {
		case <-done:
			return true
		default:
			return b.holds(`SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)`)
		}
	})
}

// Cursors without a tenant write nothing into the index of tenants, and a claim does not read that index.
func TestPartitionsWithoutATenantCostNothing(t *testing.T) {
	b := newBench(t, "g")
	for i := range 20 {
		b.push(fmt.Sprint("p", i), "1")
	}
	for range 20 {
		d := b.pop(request("g", 1))
		b.ack(d, queue.AckCompleted, d.Messages...)
	}
	require.Zero(t, b.count(`SELECT pg_relation_size('belfry.cursor_tenant') / 8192 - 1`), "only the meta page of the index exists")
	b.pushTenant("with", "acme")
	require.Positive(t, b.count(`SELECT pg_relation_size('belfry.cursor_tenant') / 8192 - 1`))
}
