package check

import (
	"context"
	"fmt"
	"time"
)

const sqlLeaseChanges = `
SELECT q.name, p.name, g.name, l.group_id, coalesce(l.old_lease::text, ''), coalesce(l.old_until, l.at), coalesce(l.new_lease::text, ''),
       coalesce(l.new_until, l.at), l.at, l.how, coalesce(l.old_seq, 0), coalesce(l.new_seq, 0),
       ARRAY(SELECT s.seq FROM unnest(l.skip) AS r, generate_series(lower(r), upper(r) - 1) AS s(seq) ORDER BY s.seq)
  FROM chaos.lease_change l
  JOIN (SELECT p.id, p.queue_id, p.name FROM belfry.partition p
        UNION ALL
        SELECT r.partition_id, r.queue_id, r.partition || '#' || r.partition_id FROM chaos.removal r) AS p ON p.id = l.partition_id
  JOIN belfry.queue q ON q.id = p.queue_id
  JOIN chaos.group_name g ON g.id = l.group_id
 WHERE q.deleted_at IS NULL AND q.name = ANY ($1)
 ORDER BY l.id`

// ReadLeasePeriods reads the periods of all leases since Watch, and the moves of cursors. If a new lease replaces a
// lease, the period of the old lease ends when it would have expired. began is the start of the history.
func ReadLeasePeriods(ctx context.Context, db Querier, queues []string, began time.Time) ([]LeasePeriod, []Move, error) {
	type key struct {
		readerName
		group int64
	}
	var periods []LeasePeriod
	var moves []Move
	open := map[key]int{} // index into periods of the live lease
	nth := map[key]int{}  // number of moves so far
	var name key
	var oldLease, newLease string
	var oldUntil, newUntil, at time.Time
	var m Move
	err := query{db, sqlLeaseChanges, queues}.forEach(ctx, func() error {
		if m.How != "lease" {
			m.Queue, m.Partition, m.Group, m.GroupID = name.queue, name.partition, name.readerName.group, name.group
			m.At = at.Sub(began)
			nth[name]++
			moves = append(moves, m)
			m.Skip = nil
			return nil
		}
		last, living := open[name]
		if living && newLease == "" && at.Before(oldUntil) {
			periods[last].Until = at // the lease was released
		}
		switch {
		case newLease == "":
			delete(open, name)
		case living && periods[last].LeaseID == newLease:
			periods[last].Until = newUntil
		default:
			open[name] = len(periods)
			periods = append(periods, LeasePeriod{
				Queue: name.queue, Partition: name.partition, Group: name.readerName.group, LeaseID: newLease, From: at, Until: newUntil,
				Moves: nth[name], GroupID: name.group,
			})
		}
		return nil
	}, &name.queue, &name.partition, &name.readerName.group, &name.group, &oldLease, &oldUntil, &newLease, &newUntil, &at,
		&m.How, &m.From, &m.To, &m.Skip)
	if err != nil {
		return nil, nil, fmt.Errorf("reading changes of leases: %w", err)
	}
	return periods, moves, nil
}
