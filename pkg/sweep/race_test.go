package sweep

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// Pushes, pops, acks, groups that join and two instances that sweep, all at once
// over a few partitions: no acknowledgment under a live lease finds its message
// gone, no cursor is left asleep, the books are right, nothing deadlocks.
func TestSweepsRaceWithEverything(t *testing.T) {
	t.Parallel()
	r := newFixture(t, small(7))
	other, _, _ := newSweeper(openPool(t, r.dsn), small(5))
	// It remembers no deliveries, so its acks look for the messages.
	stranger := openStore(t, r.pool)
	r.push("p0", 1)
	r.options("lease_time = 1, retention_enabled = true, retention_seconds = 2, completed_retention_seconds = 1, max_wait_time_seconds = 1, expire_after_seconds = 1")
	// Messages are of all ages, so that every rule has some.
	r.exec(`CREATE FUNCTION older() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		NEW.created_at = NEW.created_at - interval '800 ms'; RETURN NEW; END $$`)
	r.exec(`CREATE TRIGGER older BEFORE INSERT ON belfry.message FOR EACH ROW EXECUTE FUNCTION older()`)

	var work errgroup.Group
	end := time.Now().Add(4 * time.Second)
	for worker := range 3 {
		work.Go(func() error {
			for n := 0; time.Now().Before(end); n++ {
				items := make([]queue.PushItem, 5)
				for i := range items {
					items[i] = queue.PushItem{
						Queue: "q", Partition: fmt.Sprint("p", rand.IntN(6)), TransactionID: fmt.Sprint(worker, " ", n, " ", i), Payload: []byte(`1`),
					}
				}
				if _, err := r.store.Push(t.Context(), items); err != nil {
					return err
				}
			}
			return nil
		})
		work.Go(func() error {
			for n := 0; time.Now().Before(end); n++ {
				group := fmt.Sprint("g", worker)
				if n%10 == 9 {
					group = fmt.Sprint("late ", worker, n%50)
				}
				asked := time.Now()
				d, err := r.store.Pop(t.Context(), &queue.PopRequest{Queue: "q", Group: group, Batch: 5, Partitions: 2})
				if err != nil {
					return err
				}
				items := make([]queue.AckItem, len(d.Messages))
				for i, m := range d.Messages {
					items[i] = queue.AckItem{TransactionID: m.TransactionID, PartitionID: m.Partition.ID.String(), Group: group, LeaseID: d.LeaseID.String(), Status: queue.AckCompleted}
				}
				results, err := stranger.Ack(t.Context(), items)
				if err != nil {
					return err
				}
				for _, one := range results {
					if !one.Success && time.Since(asked) < time.Second {
						return fmt.Errorf("an ack under a live lease was refused: %s", one.Error)
					}
				}
			}
			return nil
		})
	}
	for _, s := range []*Sweeper{r.Sweeper, other} {
		for _, j := range []job{s.retention(), s.eviction()} {
			work.Go(func() error {
				for time.Now().Before(end) {
					if _, err := j.wanted(t.Context()); err != nil {
						return err
					}
					if err := j.run(t.Context(), &hold{s: s, job: j.name, since: end.Add(time.Hour)}); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	require.NoError(t, work.Wait())
	require.Zero(t, r.number("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"))
	r.exec("UPDATE belfry.cursor SET lease_until = now() - interval '1 s', ready_at = now() - interval '1 s' WHERE lease_id IS NOT NULL")
	r.exec("UPDATE belfry.message SET created_at = created_at - interval '1 h'")
	r.sweep(r.eviction())
	r.sweep(r.retention())
	require.Zero(t, r.number("SELECT count(*) FROM belfry.message"))
	n := r.counts()
	require.Equal(t, r.number("SELECT sum(last_seq) FROM belfry.partition"), n.retention+n.completed+n.evicted, "each was counted once")
	require.Positive(t, n.retention+n.completed+n.evicted)
}
