package stats_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/insight/stats"
)

// madeCursor is a cursor of a generated partition.
type madeCursor struct {
	committed int64
	leaseEnd  int64 // 0: no lease
	expired   bool
	skip      []int64
}

// madePartition is a generated partition.
type madePartition struct {
	last, trimmed int64
	holes         []int64
	cursors       []madeCursor
	dead          [][2]int64 // group, seq
}

// randomPartition keeps the invariants of the verbs: a cursor's skip list has the holes
// after the cursor and the dead letters of its group.
func randomPartition(rng *rand.Rand) madePartition {
	p := madePartition{last: rng.Int64N(12)}
	if p.last > 0 {
		p.trimmed = rng.Int64N(p.last + 1)
	}
	for seq := p.trimmed + 1; seq <= p.last; seq++ {
		if rng.IntN(5) == 0 {
			p.holes = append(p.holes, seq)
		}
	}
	for group := range rng.Int64N(4) {
		c := madeCursor{committed: rng.Int64N(p.last + 1)}
		if c.committed < p.last && rng.IntN(2) == 0 {
			c.leaseEnd = c.committed + 1 + rng.Int64N(p.last-c.committed)
			c.expired = rng.IntN(3) == 0
		}
		for seq := p.trimmed + 1; seq <= p.last; seq++ {
			hole := slices.Contains(p.holes, seq)
			dead := !hole && rng.IntN(5) == 0
			if dead {
				p.dead = append(p.dead, [2]int64{group, seq})
			}
			if (hole || dead) && seq > c.committed {
				c.skip = append(c.skip, seq)
			}
		}
		p.cursors = append(p.cursors, c)
	}
	return p
}

// counts computes the counts from every message.
func (p madePartition) counts() (n stats.Counts) {
	for seq := p.trimmed + 1; seq <= p.last; seq++ {
		if slices.Contains(p.holes, seq) {
			continue
		}
		n.Total++
		waits, leased := len(p.cursors) == 0, false
		for _, c := range p.cursors {
			switch {
			case seq <= c.committed:
			case seq <= c.leaseEnd && !c.expired:
				leased = true
			default:
				waits = true
			}
		}
		switch {
		case slices.ContainsFunc(p.dead, func(d [2]int64) bool { return d[1] == seq }):
			n.DeadLetter++
		case waits:
			n.Pending++
		case leased:
			n.Processing++
		default:
			n.Completed++
		}
	}
	return n
}

// The counts computed from cursors equal the counts computed from every message.
func TestCountsEqualThoseOfEveryMessage(t *testing.T) {
	t.Parallel()
	const partitions = 1500 // more than a page
	r := newFixture(t)
	rng := rand.New(rand.NewPCG(1, 2))
	r.configure("q")
	r.exec(`DELETE FROM belfry.partition`)
	r.exec(`INSERT INTO belfry.consumer_group (queue_id, name) SELECT q.id, 'g' || i FROM belfry.queue q, generate_series(0, 3) i`)
	var groups []int64
	require.NoError(t, r.conn.QueryRow(t.Context(), `SELECT array_agg(id ORDER BY name) FROM belfry.consumer_group`).Scan(&groups))
	made := map[string]madePartition{}
	var total stats.Counts
	for i := range partitions {
		name, p := fmt.Sprintf("p%d", i), randomPartition(rng)
		made[name] = p
		n := p.counts()
		total = stats.Counts{
			Total: total.Total + n.Total, Pending: total.Pending + n.Pending, Processing: total.Processing + n.Processing,
			Completed: total.Completed + n.Completed, DeadLetter: total.DeadLetter + n.DeadLetter,
		}
		var id int64
		require.NoError(t, r.conn.QueryRow(t.Context(), `INSERT INTO belfry.partition (queue_id, name, last_seq, trimmed, holes)
			SELECT id, $1, $2, $3, $4 FROM belfry.queue RETURNING id`, name, p.last, p.trimmed, len(p.holes)).Scan(&id))
		for g, c := range p.cursors {
			r.exec(`INSERT INTO belfry.cursor (partition_id, group_id, committed, lease_end, lease_until, skip)
				VALUES ($1, $2, $3, nullif($4::bigint, 0),
				        CASE WHEN $4 > 0 THEN clock_timestamp() + CASE WHEN $5 THEN interval '-1 h' ELSE interval '1 h' END END,
				        (SELECT range_agg(int8range(s, s + 1)) FROM unnest($6::bigint[]) AS s))`,
				id, groups[g], c.committed, c.leaseEnd, c.expired, c.skip)
		}
		for _, d := range p.dead {
			r.exec(`INSERT INTO belfry.dead_letter (partition_id, group_id, seq, attempts) VALUES ($1, $2, $3, 1)`, id, groups[d[0]], d[1])
		}
	}
	require.Positive(t, total.Processing)
	require.Positive(t, total.Completed)
	detail, err := r.Queue(t.Context(), "q", nil, 10_000)
	require.NoError(t, err)
	require.Len(t, detail.Page, partitions)
	for _, p := range detail.Page {
		require.Equal(t, made[p.Name].counts(), p.Counts, "%+v", made[p.Name])
	}
	require.Equal(t, total, detail.Counts)
	require.Equal(t, total, r.only().Counts)
	require.EqualValues(t, partitions, r.only().Partitions)
}
