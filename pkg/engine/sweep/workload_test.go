package sweep

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// workload runs functions concurrently and repeatedly until a point in time.
type workload struct {
	errgroup.Group
	end time.Time
}

func newWorkload() *workload { return &workload{end: time.Now().Add(4 * time.Second)} }

// repeat calls do with 0, 1, ... until the workload ends or do fails.
func (w *workload) repeat(do func(n int) error) {
	w.Go(func() error {
		for n := 0; time.Now().Before(w.end); n++ {
			if err := do(n); err != nil {
				return err
			}
		}
		return nil
	})
}

// repeatJob repeats a sweep without a lease on its job.
func (w *workload) repeatJob(ctx context.Context, s *Sweeper, j job) {
	w.repeat(func(int) error {
		if _, err := j.needed(ctx); err != nil {
			return err
		}
		return j.run(ctx, &jobLease{s: s, job: j.name, renewed: w.end.Add(time.Hour)})
	})
}

// repeatPush repeats a push of five messages to random partitions.
func (w *workload) repeatPush(r *fixture, worker, partitions int) {
	w.repeat(func(n int) error {
		items := make([]queue.PushItem, 5)
		for i := range items {
			items[i] = queue.PushItem{
				Queue: "q", Partition: fmt.Sprint("p", rand.IntN(partitions)), TransactionID: fmt.Sprint(worker, " ", n, " ", i), Payload: []byte(`1`),
			}
		}
		_, err := r.store.Push(r.t.Context(), items)
		return err
	})
}

// ackItems returns one ack for each message of a delivery.
func ackItems(d *queue.Delivery, group string, status func() queue.AckStatus) []queue.AckItem {
	items := make([]queue.AckItem, len(d.Messages))
	for i, m := range d.Messages {
		items[i] = queue.AckItem{
			TransactionID: m.TransactionID, PartitionID: m.Partition.ID.String(), Group: group, LeaseID: d.LeaseID.String(), Status: status(),
		}
	}
	return items
}

// backdateInserts gives every new message an earlier created_at, so that each rule finds messages.
func (r *fixture) backdateInserts(interval string) {
	r.t.Helper()
	r.exec(`CREATE FUNCTION older() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		NEW.created_at = NEW.created_at - interval '` + interval + `'; RETURN NEW; END $$`)
	r.exec(`CREATE TRIGGER older BEFORE INSERT ON belfry.message FOR EACH ROW EXECUTE FUNCTION older()`)
}

func (r *fixture) deadlocks() int64 {
	r.t.Helper()
	return r.number("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
}
