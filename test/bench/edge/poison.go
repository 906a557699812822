package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
	"github.com/belfry-mq/belfry/test/bench/rig"
	"github.com/belfry-mq/belfry/test/pgtest"
)

const (
	poisonWaiters = 200
	poisonLimit   = 100 * time.Millisecond
	// poisonDelay is the time between the push and the instant at which the messages become visible. All pops must wait by
	// then.
	poisonDelay = 6 * time.Second
	// noiseBytes is the size in bytes of the payload that becomes unreadable. Postgres stores it outside of the row of the
	// message.
	noiseBytes = 50_000
)

// measurePoison lets 200 pops wait for 200 messages that become visible at one instant. One message cannot be read. One pop
// fails. The other pops must get their messages within poisonLimit.
func measurePoison(ctx context.Context, r *suite, out *rig.Report) (err error) {
	t, err := r.start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	noise := make([]byte, noiseBytes)
	_, _ = rand.Read(noise)
	large, err := json.Marshal(noise)
	if err != nil {
		return err
	}
	visible := time.Now().Add(poisonDelay).Truncate(time.Millisecond).UTC()
	items := make([]map[string]any, poisonWaiters)
	for i := range items {
		items[i] = map[string]any{"queue": "poison", "partition": fmt.Sprint(i), "visibleAt": visible.Format(time.RFC3339Nano), "payload": i}
	}
	items[poisonWaiters/2]["payload"] = string(large)
	if _, err := t.Call(ctx, http.MethodPost, "/api/v1/push", map[string]any{"items": items}, nil); err != nil {
		return err
	}
	if err := pgtest.Damage(ctx, t.dsn); err != nil {
		return err
	}
	took, failed := load.NewTimes(), 0
	var mu sync.Mutex
	var all sync.WaitGroup
	for range poisonWaiters {
		all.Go(func() {
			resp, err := t.Call(ctx, http.MethodGet, "/api/v1/pop/queue/poison?wait=true&timeout=20000", nil, nil)
			mu.Lock()
			defer mu.Unlock()
			if err != nil || resp.Status != http.StatusOK {
				failed++
				return
			}
			took.Add(time.Since(visible))
		})
	}
	err = t.WaitWaiting(ctx, poisonWaiters)
	spare := time.Until(visible)
	all.Wait()
	if err != nil {
		return err
	}
	if spare < 0 {
		return errors.New("the machine was too slow: the messages were visible before all pops waited")
	}
	out.Limit("pops with a message", fmt.Sprint(took.Count()), fmt.Sprint(poisonWaiters-1), took.Count() == poisonWaiters-1)
	out.Limit("pops that failed", fmt.Sprint(failed), "1", failed == 1)
	out.Note("from visible to the answer of the pop, p50", rig.Millis(took.Quantile(0.5)))
	out.Within("from visible to the answer of the last pop", took.Quantile(1), poisonLimit)
	return nil
}
