package main

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-mq/belfry/test/chaos/check"
	"github.com/belfry-mq/belfry/test/chaos/history"
	"github.com/belfry-mq/belfry/test/chaos/workload"
)

const (
	// probeInterval is the time between two probes, and so the precision of a stall.
	probeInterval = 50 * time.Millisecond
	// probeTimeout is the timeout of a probe. After a timeout, Postgres counts as unavailable.
	probeTimeout = time.Second
	// sampleEvery is the number of probes from one sample of all cursors to the next.
	sampleEvery = 10
)

// anythingReady returns whether some group can receive a message now. It does not read ready_at, because it must find
// a partition whose ready_at is wrong.
const anythingReady = `
SELECT EXISTS (
    SELECT 1 FROM belfry.queue q
      JOIN belfry.partition p ON p.queue_id = q.id
      JOIN belfry.cursor c ON c.partition_id = p.id
     WHERE q.name = ANY ($1) AND q.deleted_at IS NULL
       AND (c.committed < p.last_seq OR c.redrives > 0) AND coalesce(c.lease_until <= now(), true)
       AND coalesce((SELECT m.visible_at FROM belfry.message m
                      WHERE m.partition_id = p.id AND m.seq > c.committed ORDER BY m.seq LIMIT 1) <= now(), true))`

// stallMeter measures the longest time without a delivery while messages were ready.
type stallMeter struct {
	database *pgxpool.Pool
	clients  *workload.Clients
	recorder *history.Recorder

	mu      sync.Mutex
	ready   bool
	since   time.Duration // time when ready became true
	longest time.Duration // longest stall since the last take

	// samples are for the judge. They are complete when run has returned.
	samples []check.Sample
}

func newStallMeter(database *pgxpool.Pool, clients *workload.Clients, recorder *history.Recorder) *stallMeter {
	return &stallMeter{database: database, clients: clients, recorder: recorder}
}

// run probes until ctx ends.
func (m *stallMeter) run(ctx context.Context) {
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for turn := 0; ; turn++ {
		select {
		case <-ticker.C:
			m.probe(ctx)
			if turn%sampleEvery == 0 {
				m.sample(ctx)
			}
		case <-ctx.Done():
			return
		}
	}
}

// probe checks once. While Postgres is unavailable, it assumes that ready did not change.
func (m *stallMeter) probe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var ready bool
	err := m.database.QueryRow(ctx, anythingReady, m.clients.Queues()).Scan(&ready)
	now := m.recorder.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		if ready && !m.ready {
			m.since = now
		}
		m.ready = ready
	}
	if m.ready {
		m.longest = max(m.longest, now-max(m.since, m.clients.LastDelivery()))
	}
}

// sample reads all cursors. It reads nothing while Postgres is unavailable.
func (m *stallMeter) sample(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if samples, err := check.ReadSamples(ctx, m.database, m.clients.Queues(), m.recorder.Now); err == nil {
		m.samples = append(m.samples, samples...)
	}
}

// take returns the longest stall since the last call.
func (m *stallMeter) take() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	longest := m.longest
	m.longest = 0
	return longest
}
