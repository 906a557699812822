package store_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// breakerLease is a lease of the model. end is its end in seconds of the model.
type breakerLease struct {
	queue.Delivery
	partition string
	end       float64
}

// breakerModel is a model of the breaker of one group. Its clock starts at 0, and moves only in advance.
type breakerModel struct {
	failures, minimum int
	share             float64
	pause, pauseMax   float64

	now            float64
	open           bool
	until          float64
	openings       int
	probe          *breakerLease
	run, done, bad int
	leases         map[string]*breakerLease // the leases in the cursors, by partition
}

func (m *breakerModel) pauseOf(openings int) float64 {
	return math.Min(m.pause*math.Pow(2, float64(openings-1)), m.pauseMax)
}

// pass reports whether the lease of a claim passes the breaker, and makes it the probe of a half-open breaker.
func (m *breakerModel) pass(l *breakerLease) bool {
	if !m.open {
		return true
	}
	until, lost := m.until, false
	if m.probe != nil && m.leases[m.probe.partition] == m.probe {
		if m.probe.end > m.now {
			return false
		}
		until, lost = math.Max(until, m.probe.end+m.pauseOf(m.openings+1)), true
	}
	if until > m.now {
		return false
	}
	if lost {
		m.openings++
	}
	m.probe = l
	return true
}

// outcome counts the completed messages of a lease, and then a failure. A pause is in seconds.
func (m *breakerModel) outcome(l *breakerLease, completed int, failed bool, pause, at float64) {
	probe := m.open && m.probe == l
	switch {
	case probe && completed > 0:
		m.open, m.until, m.openings, m.probe, m.run, m.done, m.bad = false, 0, 0, nil, 0, 0, 0
	case probe && failed:
		m.openings++
		m.until, m.probe = math.Max(m.until, at+m.pauseOf(m.openings)), nil
	}
	switch {
	case pause > 0 && m.open:
		m.until = math.Max(m.until, m.now+pause)
		if probe {
			m.openings++
			m.probe = nil
		}
	case pause > 0:
		m.open, m.until, m.openings, m.probe = true, m.now+pause, 1, nil
	case !m.open:
		m.done += completed
		if completed > 0 {
			m.run = 0
		}
		if failed {
			m.run++
			m.bad++
		}
		total := m.done + m.bad
		if failed && (m.failures > 0 && m.run >= m.failures || m.share > 0 && total >= m.minimum && float64(m.bad) >= m.share*float64(total)) {
			m.open, m.until, m.openings, m.probe = true, at+m.pauseOf(1), 1, nil
		}
	}
}

// The breaker in SQL refuses and passes the same claims as the model.
func TestTheBreakerIsTheModel(t *testing.T) {
	const partitions = 3
	b := newBench(t, "g")
	b.exec(`UPDATE belfry.queue SET retry_limit = 1000000, lease_time = 300`)
	for p := range partitions {
		var ids []string
		for i := range 400 {
			ids = append(ids, fmt.Sprintf("%d/%d", p, i))
		}
		b.push(fmt.Sprint("p", p), ids...)
	}
	rapid.Check(t, func(t *rapid.T) {
		m := &breakerModel{
			failures: rapid.SampledFrom([]int{0, 1, 1, 3}).Draw(t, "failures"), share: rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(t, "share"),
			minimum: rapid.IntRange(1, 6).Draw(t, "minimum"), pause: 10, pauseMax: rapid.SampledFrom([]float64{10, 60}).Draw(t, "pause max"), leases: map[string]*breakerLease{},
		}
		b.limitBreaker(m)
		actions := map[string]func(*rapid.T){
			"pop": func(t *rapid.T) {
				partition := fmt.Sprint("p", rapid.IntRange(0, partitions-1).Draw(t, "partition"))
				before := m.leases[partition]
				lease := &breakerLease{partition: partition, end: m.now + 300}
				lease.Delivery = b.pop(request("g", rapid.IntRange(1, 3).Draw(t, "batch"), func(r *queue.PopRequest) { r.Partition = &partition }))
				passes := false
				if before == nil || before.end <= m.now {
					if before != nil {
						m.outcome(before, 0, true, 0, before.end)
					}
					passes = m.pass(lease)
					delete(m.leases, partition)
				}
				require.Equal(t, passes, len(lease.Messages) > 0)
				if passes {
					m.leases[partition] = lease
				}
			},
			"ack": func(t *rapid.T) {
				lease := m.leases[fmt.Sprint("p", rapid.IntRange(0, partitions-1).Draw(t, "partition"))]
				if lease == nil || lease.end <= m.now {
					return
				}
				completed := rapid.IntRange(0, len(lease.Messages)).Draw(t, "completed")
				items := acks(lease.Delivery, queue.AckCompleted, lease.Messages[:completed]...)
				failed, pause := false, 0.0
				if completed < len(lease.Messages) {
					last := acks(lease.Delivery, rapid.SampledFrom([]queue.AckStatus{queue.AckFailed, queue.AckRetry}).Draw(t, "status"), lease.Messages[completed])
					last[0].RetryAfter = new(time.Duration(0))
					if failed = last[0].Status == queue.AckFailed; !failed {
						pause = rapid.SampledFrom([]float64{0, 5, 30}).Draw(t, "pause")
						last[0].PauseGroup = time.Duration(pause * float64(time.Second))
					}
					items = append(items, last...)
				}
				results, err := b.Ack(b.t.Context(), items)
				require.NoError(t, err)
				for _, result := range results {
					require.True(t, result.Success, result.Error)
				}
				if completed > 0 || failed || pause > 0 {
					m.outcome(lease, completed, failed, pause, m.now)
				}
				delete(m.leases, lease.partition)
			},
			"advance": func(t *rapid.T) {
				seconds := rapid.SampledFrom([]float64{3, 11, 41, 301}).Draw(t, "seconds")
				m.now += seconds
				b.advance(seconds)
			},
		}
		for range 70 {
			actions[rapid.SampledFrom([]string{"pop", "pop", "ack", "advance"}).Draw(t, "action")](t)
		}
	})
}

// limitBreaker gives the group of the bench the breaker of the model, and forgets everything before.
func (b *bench) limitBreaker(m *breakerModel) {
	b.exec(`UPDATE belfry.cursor SET lease_id = NULL, lease_until = NULL, lease_end = NULL, committed = 0, failures = 0, attempts = 0, retry_at = NULL,
		ready_at = now() WHERE EXISTS (SELECT FROM belfry.message m WHERE m.partition_id = cursor.partition_id)`)
	b.exec(`TRUNCATE belfry.breaker, belfry.breaker_count, belfry.limit_number, belfry.group_limit, belfry.attempt`)
	b.exec(`INSERT INTO belfry.group_limit (queue_id, group_name, breaker_failures, breaker_share, breaker_window, breaker_minimum, breaker_pause, breaker_pause_max)
		SELECT id, 'g', nullif($1::bigint, 0), nullif($2::float8, 0), interval '1000 years', $3::bigint, make_interval(secs => $4::float8), make_interval(secs => $5::float8)
		  FROM belfry.queue`, m.failures, m.share, m.minimum, m.pause, m.pauseMax)
	b.exec(`UPDATE belfry.consumer_group SET limits_id = (SELECT id FROM belfry.group_limit)`)
}

// advance lets time pass for breakers and leases: it moves their instants back.
func (b *bench) advance(seconds float64) {
	b.exec(`UPDATE belfry.breaker SET opened_at = opened_at - make_interval(secs => $1), open_until = open_until - make_interval(secs => $1)`, seconds)
	b.exec(`UPDATE belfry.cursor SET lease_until = lease_until - make_interval(secs => $1), ready_at = ready_at - make_interval(secs => $1)`, seconds)
}
