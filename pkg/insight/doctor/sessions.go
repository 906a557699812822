package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/engine/inbox"
	"github.com/belfry-mq/belfry/sql"
)

const (
	// maxKept is how many bytes of WAL a slot may keep. maxLag is how far a standby may be behind.
	maxKept = 1 << 30
	maxLag  = 30 * time.Second
	// maxSlotAge is for how many transactions a slot may keep old row versions.
	maxSlotAge = 10_000_000
)

var (
	sqlSnapshots = sql.Query("insight/doctor/snapshots")
	sqlSlots     = sql.Query("insight/doctor/slots")
	sqlStandbys  = sql.Query("insight/doctor/standbys")
	sqlLocks     = sql.Query("insight/doctor/locks")
)

// sessionChecks examine other sessions, standbys and replication slots.
var sessionChecks = []check{
	{"held_snapshot", "A long transaction keeps Postgres from removing old row versions, so the tables of Belfry grow and slow down. It may also hold locks.", checkSnapshots},
	{"foreign_locks", "Each role that may connect can take the advisory locks of Belfry. While a foreign session holds such a lock, Belfry cannot do part of its work.", checkLocks},
	{"connection_budget", "Without a free connection an instance cannot start, and requests are refused with 503.", judged(judgeConnections)},
	{"replication_slots", "A slot that nobody reads keeps WAL until the disk is full. It may also keep old row versions.", checkSlots},
	{"replication_lag", "A failover to a standby that is behind loses acknowledged messages. A missing synchronous standby stops commits.", checkStandbys},
}

// transaction is an open transaction. For a prepared transaction, pid is 0 and gid is its name.
type transaction struct {
	pid                               int64
	username, application, state, gid string
	began                             time.Time
	seconds                           float64
}

func readTransaction(row pgx.CollectableRow) (t transaction, err error) {
	return t, row.Scan(&t.pid, &t.username, &t.application, &t.state, &t.gid, &t.began, &t.seconds)
}

func (t *transaction) String() string {
	age := duration(t.seconds).Round(time.Second)
	if t.pid == 0 {
		return fmt.Sprintf("the prepared transaction %q of user %q (since %s, %s)", t.gid, t.username, t.began.UTC().Format(time.RFC3339), age)
	}
	return fmt.Sprintf("session %d of user %q, application %q, %s (since %s, %s)", t.pid, t.username, t.application, t.state, t.began.UTC().Format(time.RFC3339), age)
}

func (t *transaction) end() string {
	if t.pid == 0 {
		return "ROLLBACK PREPARED '" + strings.ReplaceAll(t.gid, "'", "''") + "'; -- or COMMIT PREPARED"
	}
	return fmt.Sprintf("SELECT pg_terminate_backend(%d);", t.pid)
}

func checkSnapshots(ctx context.Context, e *exam) outcome {
	open, err := collect(ctx, e, sqlSnapshots, readTransaction, e.Limits.Transaction.Seconds())
	if err != nil {
		return failed(err)
	}
	if len(open) == 0 {
		if !e.facts.seesSessions {
			return unknown("The role may not see the transactions of other roles.").advise(
				"GRANT pg_read_all_stats TO " + pgx.Identifier{e.facts.role}.Sanitize() + ";")
		}
		return fine("No transaction is open for more than %s.", e.Limits.Transaction)
	}
	names := make([]string, len(open))
	for i := range open {
		names[i] = open[i].String()
	}
	o := warning("Open for more than %s: %s.", e.Limits.Transaction, strings.Join(names, "; "))
	if duration(open[0].seconds) > 12*e.Limits.Transaction {
		o.result = Wrong
	}
	for i := range open {
		o = o.advise(open[i].end())
	}
	return o.advise("Set idle_in_transaction_session_timeout for the role of that program.")
}

// foreignLock is an advisory lock of Belfry that a role without the rights of a server holds. cost describes the
// consequence. stops is true if Belfry cannot do part of its work.
type foreignLock struct {
	holder     inbox.Holder
	name, cost string
	stops      bool
}

func readForeignLock(row pgx.CollectableRow) (l foreignLock, err error) {
	return l, row.Scan(&l.holder.PID, &l.holder.User, &l.holder.Application, &l.name, &l.stops, &l.cost)
}

func checkLocks(ctx context.Context, e *exam) outcome {
	locks, err := collect(ctx, e, sqlLocks, readForeignLock)
	if err != nil {
		return failed(err)
	}
	if len(locks) == 0 {
		return fine("No role without the rights of a server holds an advisory lock of Belfry.")
	}
	o := outcome{result: Warning}
	for i := range locks {
		l := &locks[i]
		if l.stops {
			o.result = Wrong
		}
		o.found += fmt.Sprintf("%s holds %s: %s. ", &l.holder, l.name, l.cost)
		o = o.advise(l.holder.EndStatement() + ";")
	}
	o.found = strings.TrimSpace(o.found)
	database := pgx.Identifier{e.facts.database}.Sanitize()
	return o.advise("REVOKE CONNECT ON DATABASE " + database + " FROM PUBLIC; -- also revoke it from that role, and grant it to the roles that need it")
}

// judgeConnections compares the connections that the instances may open with max_connections.
// A connection limit of the database or of the role counts too, unless the role is a superuser.
func judgeConnections(e *exam, f *facts) outcome {
	limit, name := f.maxConnections-f.reserved, "max_connections"
	if !f.superuser && f.databaseLimit >= 0 && f.databaseLimit < limit {
		limit, name = f.databaseLimit, "the connection limit of the database"
	}
	if !f.superuser && f.roleLimit >= 0 && f.roleLimit < limit {
		limit, name = f.roleLimit, "the connection limit of the role"
	}
	instances := max(f.instances, 1)
	needed := instances * e.PerInstance
	found := fmt.Sprintf("%s leaves %d connections; %d instances need up to %d (%d each); %d are open on the server now.",
		name, limit, instances, needed, e.PerInstance, f.used)
	steps := []string{
		"Raise max_connections (or the limit of the database or role), and restart Postgres.",
		"Or lower database.pool_size and dispatch.poll_workers, or use a pooler (docs/operations.md).",
		"SELECT usename, application_name, count(*) FROM pg_stat_activity GROUP BY 1, 2 ORDER BY 3 DESC;",
	}
	switch {
	case needed > limit:
		return outcome{result: Wrong, found: found}.advise(steps...)
	case f.used*10 >= (f.maxConnections-f.reserved)*9:
		return outcome{result: Warning, found: found}.advise(steps...)
	}
	return outcome{result: OK, found: found}
}

// slot is a replication slot.
type slot struct {
	name      string
	active    bool
	walStatus string
	kept, age int64
}

func readSlot(row pgx.CollectableRow) (s slot, err error) {
	return s, row.Scan(&s.name, &s.active, &s.walStatus, &s.kept, &s.age)
}

func checkSlots(ctx context.Context, e *exam) outcome {
	slots, err := collect(ctx, e, sqlSlots, readSlot)
	if err != nil {
		return failed(err)
	}
	var found, steps []string
	result := OK
	for i := range slots {
		s := &slots[i]
		if s.active && s.age < maxSlotAge && s.kept < maxKept && s.walStatus != "lost" {
			continue
		}
		state := "in use"
		if !s.active {
			state = "not in use"
			steps = append(steps, "SELECT pg_drop_replication_slot('"+strings.ReplaceAll(s.name, "'", "''")+"'); -- if no program will read the slot again")
		}
		found = append(found, fmt.Sprintf("%s is %s, keeps %s of WAL and row versions of %d transactions", s.name, state, size(s.kept), s.age))
		if result == OK {
			result = Warning
		}
		if s.kept >= maxKept || s.walStatus == "lost" || s.walStatus == "unreserved" || s.age >= maxSlotAge {
			result = Wrong
		}
	}
	if result == OK {
		return fine("No replication slot is idle or behind (%d slots).", len(slots))
	}
	return outcome{result: result, found: "Replication slots: " + strings.Join(found, "; ") + "."}.advise(steps...).advise(
		"Start the reader of the slot again.", "Set max_slot_wal_keep_size, so that a slot cannot fill the disk.")
}

// standby is a connected standby.
type standby struct {
	name, state, sync string
	bytes             int64
	seconds           float64
}

func readStandby(row pgx.CollectableRow) (s standby, err error) {
	return s, row.Scan(&s.name, &s.state, &s.sync, &s.bytes, &s.seconds)
}

func checkStandbys(ctx context.Context, e *exam) outcome {
	standbys, err := collect(ctx, e, sqlStandbys, readStandby)
	if err != nil {
		return failed(err)
	}
	var late []string
	synchronous := false
	for i := range standbys {
		s := &standbys[i]
		synchronous = synchronous || s.sync == "sync" || s.sync == "quorum"
		if duration(s.seconds) > maxLag || s.bytes > maxKept {
			late = append(late, fmt.Sprintf("%s (%s) is %s and %s behind", s.name, s.state, duration(s.seconds).Round(time.Second), size(s.bytes)))
		}
	}
	switch {
	case e.facts.synchronousStandbys != "" && !synchronous && e.facts.seesSessions:
		return wrong("synchronous_standby_names is %q and no synchronous standby is connected, so commits wait.", e.facts.synchronousStandbys).advise(
			"SELECT application_name, state, sync_state FROM pg_stat_replication;", "Start the standby, or change synchronous_standby_names and run SELECT pg_reload_conf();")
	case len(late) > 0:
		return warning("Standbys: %s.", strings.Join(late, "; ")).advise(
			"SELECT application_name, state, sent_lsn, replay_lsn, replay_lag FROM pg_stat_replication;", "Look at the disk, the network and long queries of the standby.")
	case !e.facts.seesSessions:
		return unknown("The role may not see the standbys.").advise("GRANT pg_read_all_stats TO " + pgx.Identifier{e.facts.role}.Sanitize() + ";")
	}
	return fine("%d standbys are connected. No standby is more than %s behind.", len(standbys), maxLag)
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// size formats a number of bytes.
func size(bytes int64) string {
	const kib = 1024
	switch {
	case bytes >= kib*kib*kib:
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(kib*kib*kib))
	case bytes >= kib*kib:
		return fmt.Sprintf("%.1f MiB", float64(bytes)/(kib*kib))
	}
	return fmt.Sprintf("%d bytes", bytes)
}
