package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/belfry-mq/belfry/pkg/engine/inbox"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/process/backoff"
	"github.com/belfry-mq/belfry/sql"
)

const (
	// countedRows is the maximum number of inbox rows that the check counts.
	countedRows = 1000
	// secondLook is the time between the two reads of a row that seems stuck. The row may have been committed just
	// now. Then the sequencer moves the row within milliseconds.
	secondLook = 500 * time.Millisecond
	// staleSpool is how long a spool may hold messages without a change while push maintenance is off.
	staleSpool = time.Minute
)

var (
	sqlInbox  = sql.Query("insight/doctor/inbox")
	sqlSpools = sql.Query("insight/doctor/spools")
	sqlGroups = sql.Query("insight/doctor/groups")
	sqlSealed = sql.Query("insight/doctor/sealed")
)

// queueChecks examine stored messages: inbox, spools, groups and encrypted payloads.
var queueChecks = []check{
	{"sequencer", "Messages written by SQL reach consumers only after the sequencer has moved them.", checkSequencer},
	{"rejected_rows", "These messages were committed by their producers and cannot be delivered.", checkRejected},
	{"spool_backlog", "Messages in a spool are on the disk of one instance. No consumer gets them before the instance stores them in the database.", checkSpools},
	{"groups_behind", "The consumers of these groups are too slow, have stopped or fail.", checkGroups},
	{"encryption_keys", "Belfry cannot deliver a message whose key is missing. No later message of its partition is delivered either.", checkKeys},
}

// inboxState is the row that sqlInbox returns. The file of the statement describes the columns.
type inboxState struct {
	id                  int64
	seconds             float64
	waiting, rejected   int64
	queue, code, reason string
}

func (e *exam) inbox(ctx context.Context) (s inboxState, err error) {
	return s, e.query(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, sqlInbox, int64(countedRows)).Scan(&s.id, &s.seconds, &s.waiting, &s.rejected, &s.queue, &s.code, &s.reason)
	})
}

func checkSequencer(ctx context.Context, e *exam) outcome {
	state, err := e.inbox(ctx)
	if err != nil {
		return failed(err)
	}
	first := state.id
	if first > 0 && duration(state.seconds) > e.Limits.InboxAge {
		if err := backoff.Sleep(ctx, secondLook); err != nil {
			return failed(err)
		}
		if state, err = e.inbox(ctx); err != nil {
			return failed(err)
		}
	}
	if state.id == 0 || state.id != first || duration(state.seconds) <= e.Limits.InboxAge {
		return fine("%s messages wait in the inbox, the oldest for %s.", counted(state.waiting), duration(state.seconds).Round(time.Millisecond))
	}
	var holder *inbox.Holder
	if err := e.query(ctx, func(tx pgx.Tx) (err error) {
		holder, err = inbox.FindHolder(ctx, tx)
		return err
	}); err != nil {
		return failed(err)
	}
	found := fmt.Sprintf("%s messages wait in the inbox, the oldest for %s", counted(state.waiting), duration(state.seconds).Round(time.Second))
	if holder == nil {
		return wrong("%s, and no session holds the lock of the sequencer.", found).advise("Start an instance of Belfry on this database.", "belfry health")
	}
	return wrong("%s. The lock of the sequencer is held by %s.", found, holder).advise(
		"If that session belongs to an instance, read the log of the instance. Otherwise end the session: "+holder.EndStatement()+";", "belfry waiting -o jsonpath='$.inbox'")
}

func checkRejected(ctx context.Context, e *exam) outcome {
	state, err := e.inbox(ctx)
	if err != nil {
		return failed(err)
	}
	if state.rejected == 0 {
		return fine("No message written by SQL was rejected.")
	}
	return warning("%s rows are in belfry.inbox_rejected. The oldest is of queue %q: %s (%s).", counted(state.rejected), state.queue, state.code, state.reason).advise(
		"SELECT code, reason, count(*) FROM belfry.inbox_rejected GROUP BY 1, 2;", "Correct the cause, then: SELECT belfry.inbox_retry();")
}

// spooled describes the content of a spool.
type spooled struct {
	host                      string
	messages, rejected, bytes int64
	seconds                   float64
	maintenance               bool
}

func readSpooled(row pgx.CollectableRow) (s spooled, err error) {
	return s, row.Scan(&s.host, &s.messages, &s.rejected, &s.bytes, &s.seconds, &s.maintenance)
}

func checkSpools(ctx context.Context, e *exam) outcome {
	spools, err := collect(ctx, e, sqlSpools, readSpooled)
	if err != nil {
		return failed(err)
	}
	var found, steps []string
	result := OK
	for i := range spools {
		s := &spools[i]
		stale := s.messages > 0 && !s.maintenance && duration(s.seconds) > staleSpool
		if s.rejected == 0 && !stale {
			continue
		}
		result = max(result, Warning) // "warning" and "wrong" follow "ok" in the alphabet
		if stale {
			result = Wrong
			steps = append(steps, "Start the instance on "+s.host+" with its spool.dir.")
		}
		if s.rejected > 0 {
			steps = append(steps, "belfry maintenance rejected", "belfry maintenance retry")
		}
		found = append(found, fmt.Sprintf("%s holds %d messages and %d rejected messages (%s), unchanged for %s",
			s.host, s.messages, s.rejected, size(s.bytes), duration(s.seconds).Round(time.Second)))
	}
	if result == OK {
		return fine("%d spools hold messages.", len(spools))
	}
	return outcome{result: result, found: "Spools: " + strings.Join(found, "; ") + "."}.advise(slices.Compact(steps)...)
}

// lateGroup is a group whose oldest ready message is too old. groups is the number of such groups.
type lateGroup struct {
	queue, name string
	age         float64
	groups      int64
}

func readLateGroup(row pgx.CollectableRow) (g lateGroup, err error) {
	return g, row.Scan(&g.queue, &g.name, &g.age, &g.groups)
}

func checkGroups(ctx context.Context, e *exam) outcome {
	late, err := collect(ctx, e, sqlGroups, readLateGroup, e.Limits.LateAfter.Seconds())
	if err != nil {
		return failed(err)
	}
	if len(late) == 0 {
		return fine("No group is late: no ready message is older than problems.late_after, %s, or half of maxWaitTimeSeconds of its queue.", e.Limits.LateAfter)
	}
	names := make([]string, len(late))
	for i := range late {
		names[i] = fmt.Sprintf("group %q of queue %q (%s)", late[i].name, late[i].queue, duration(late[i].age).Round(time.Second))
	}
	first := &late[0]
	return warning("%d groups are late, with the age of their oldest ready message: %s.", first.groups, strings.Join(names, ", ")).advise(
		"belfry lag", "belfry explain --queue "+shellWord(first.queue)+" --group "+shellWord(first.name)+" --partition NAME", "Start more consumers of the group. If nobody uses the group: \"belfry group delete GROUP\".")
}

// sealedMessage is an encrypted message. queues is the number of queues that encrypt.
type sealedMessage struct {
	queues                    int64
	queue, partition, payload zeronull.Text
	id                        zeronull.UUID
}

func readSealed(row pgx.CollectableRow) (m sealedMessage, err error) {
	return m, row.Scan(&m.queues, &m.queue, &m.partition, &m.id, &m.payload)
}

func checkKeys(ctx context.Context, e *exam) outcome {
	sample, err := collect(ctx, e, sqlSealed, readSealed)
	if err != nil {
		return failed(err)
	}
	queues, opened := int64(0), 0
	var reasons []string
	for i := range sample {
		m := &sample[i]
		queues = m.queues
		if m.payload == "" {
			continue
		}
		if _, err := e.Sealer.Open([]byte(m.payload), seal.Message{Queue: string(m.queue), Partition: string(m.partition), ID: m.id}); err != nil {
			reasons = append(reasons, fmt.Sprintf("queue %q: %v", string(m.queue), err))
			continue
		}
		opened++
	}
	steps := []string{"Add the missing key to encryption.keys of every instance and restart it.", "belfry reseal QUEUE --check"}
	switch {
	case e.Process == nil && !e.Sealer.HasKey() && (queues > 0 || len(reasons) > 0):
		return unknown("%d queues encrypt and this command has no key, so only a server can check the messages.", queues).advise("Run \"belfry doctor --server URL\", or give this command the encryption.keys of the instances.")
	case len(reasons) > 0:
		slices.Sort(reasons)
		distinct := slices.Compact(reasons)
		return wrong("%d of %d sampled messages cannot be opened: %s.", len(reasons), len(reasons)+opened, strings.Join(distinct[:min(3, len(distinct))], "; ")).advise(steps...)
	case queues > 0 && !e.Sealer.HasKey() && !e.Sealer.AllowsPlaintext():
		return wrong("%d queues encrypt and this instance has no key, so their pushes are refused.", queues).advise("Set encryption.keys as on the other instances, and restart.")
	}
	return fine("%d queues encrypt; all %d sampled messages can be opened.", queues, opened)
}

// counted formats a count that stops at countedRows.
func counted(n int64) string {
	if n >= countedRows {
		return fmt.Sprintf("%d or more", n)
	}
	return fmt.Sprint(n)
}
