package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/belfry-mq/belfry/test/httpcall"
)

// summer sums windows of size numbers. It emits a window when it has all of them.
type summer struct {
	query string
	size  int
	done  atomic.Int64
}

func (s *summer) cycles() int64 { return s.done.Load() }

// run makes cycles until ctx ends, at the server at base, and from then on at each next one.
func (s *summer) run(ctx context.Context, t *testing.T, base string, next <-chan string) {
	sender := &http.Client{Transport: &http.Transport{}}
	defer sender.CloseIdleConnections()
	for ctx.Err() == nil {
		select {
		case base = <-next:
		default:
		}
		if err := s.step(ctx, sender, base); err != nil && ctx.Err() == nil {
			t.Log(err) // the messages come again
		}
	}
}

// step pops messages of one partition and makes a cycle of them.
func (s *summer) step(ctx context.Context, sender *http.Client, base string) error {
	group := "streams." + s.query
	got, err := httpcall.Send(ctx, sender, base, popCall("q", "batch=7&wait=true&timeout=200&consumerGroup="+group))
	if err != nil || got.Status == http.StatusNoContent {
		return err
	}
	var d delivery
	if err := json.Unmarshal(got.Raw, &d); err != nil || got.Status != http.StatusOK {
		return fmt.Errorf("pop: status %d: %s: %w", got.Status, got.Raw, err)
	}
	got, err = httpcall.Send(ctx, sender, base, post("/streams/v1/state/get", encode(object{"query_id": s.query, "partition_id": d.PartitionID})))
	var state struct {
		Rows []struct {
			Key   string
			Value window
		}
	}
	if err != nil || json.Unmarshal(got.Raw, &state) != nil || got.Status != http.StatusOK {
		return fmt.Errorf("state: status %d: %s: %w", got.Status, got.Raw, err)
	}
	open, stored := map[int]window{}, map[int]bool{}
	for _, row := range state.Rows {
		open[row.Value.Window], stored[row.Value.Window] = row.Value, true
	}
	ops, items := []object{}, []object{}
	for _, m := range d.Messages {
		var n int
		if err := json.Unmarshal(m.Data, &n); err != nil {
			return err
		}
		w := open[n/s.size]
		w.Window, w.Sum, w.Count = n/s.size, w.Sum+n, w.Count+1
		open[w.Window] = w
		key := fmt.Sprint(w.Window)
		if w.Count == s.size {
			if stored[w.Window] {
				ops = append(ops, object{"type": "delete", "key": key})
			} else {
				ops = slices.DeleteFunc(ops, func(op object) bool { return op["key"] == key })
			}
			items = append(items, object{"queue": "out", "partition": d.Partition, "payload": w})
		} else {
			ops = append(ops, upsert(key, w))
		}
	}
	last := d.Messages[len(d.Messages)-1]
	got, err = httpcall.Send(ctx, sender, base, post("/streams/v1/cycle", encode(object{
		"query_id": s.query, "partition_id": d.PartitionID, "consumer_group": group, "state_ops": ops, "push_items": items,
		"ack": object{"transactionId": last.TransactionID, "leaseId": d.LeaseID, "count": len(d.Messages)},
	})))
	var answer cycled
	if err != nil || json.Unmarshal(got.Raw, &answer) != nil || !answer.Success {
		return fmt.Errorf("cycle: status %d: %s: %w", got.Status, got.Raw, err)
	}
	s.done.Add(1)
	return nil
}

// window is a window, as state and as message.
type window struct {
	Window int `json:"window"`
	Sum    int `json:"sum"`
	Count  int `json:"count"`
}
