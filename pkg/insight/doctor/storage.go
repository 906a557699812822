package doctor

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/belfry-mq/belfry/sql"
)

const (
	// If a table has fewer than manyDead dead rows, the check does not compare them with the live rows.
	manyDead = 500_000
	// lateVacuum is how long a table with so many dead rows may go without a vacuum.
	lateVacuum = 10 * time.Minute
	// minFree is the free space that a disk should have in bytes, minFreePercent in percent of the disk.
	minFree, minFreePercent = 2 << 30, 10
)

var (
	sqlTables    = sql.Query("insight/doctor/tables")
	sqlCompleted = sql.Query("insight/doctor/completed")
)

// storageChecks examine settings, vacuum and disk space of the database.
var storageChecks = []check{
	{"lossy_settings", "With these settings a crash or a power cut loses acknowledged messages, or damages the database.", checkLossy},
	{"autovacuum", "Without autovacuum, the tables of Belfry grow and the statements of Belfry become slower.", checkAutovacuum},
	{"dead_rows", "Dead rows that vacuum does not remove make reads slower and tables larger.", checkDeadRows},
	{"completed_rows", "Messages that every group has passed use disk space until a sweep deletes them.", checkCompleted},
	{"disk_room", "A full disk stops Postgres.", checkDisk},
}

// table is a table of Belfry. vacuumed is the number of seconds since the last vacuum, or 0 if there was no vacuum.
type table struct {
	name                    string
	unlogged, autovacuumOff bool
	live, dead              int64
	vacuumed                zeronull.Float8
}

func readTable(row pgx.CollectableRow) (t table, err error) {
	return t, row.Scan(&t.name, &t.unlogged, &t.autovacuumOff, &t.live, &t.dead, &t.vacuumed)
}

// named calls match for each table, and returns the texts of match that are not empty.
func named(ctx context.Context, e *exam, match func(t *table) string) ([]string, error) {
	if e.factsErr != nil {
		return nil, e.factsErr
	}
	tables, err := collect(ctx, e, sqlTables, readTable)
	var names []string
	for i := range tables {
		if name := match(&tables[i]); name != "" {
			names = append(names, name)
		}
	}
	return names, err
}

func checkLossy(ctx context.Context, e *exam) outcome {
	unlogged, err := named(ctx, e, func(t *table) string {
		if t.unlogged {
			return "belfry." + t.name
		}
		return ""
	})
	if err != nil {
		return failed(err)
	}
	var found, steps []string
	for _, s := range []struct {
		name string
		on   bool
	}{{"fsync", e.facts.fsync}, {"full_page_writes", e.facts.fullPageWrites}} {
		if !s.on {
			found = append(found, s.name+" is off")
			steps = append(steps, "ALTER SYSTEM SET "+s.name+" = on; SELECT pg_reload_conf();")
		}
	}
	for _, name := range unlogged {
		found = append(found, name+" is unlogged")
		steps = append(steps, "ALTER TABLE "+name+" SET LOGGED;")
	}
	if len(found) > 0 {
		return wrong("%s.", strings.Join(found, ", ")).advise(steps...)
	}
	note := ""
	if e.facts.synchronousCommit == "off" {
		note = " synchronous_commit is off by default; the sessions of Belfry set it to on."
	}
	return fine("fsync and full_page_writes are on, and no table is unlogged.%s", note)
}

func checkAutovacuum(ctx context.Context, e *exam) outcome {
	without, err := named(ctx, e, func(t *table) string {
		if t.autovacuumOff {
			return "belfry." + t.name
		}
		return ""
	})
	if err != nil {
		return failed(err)
	}
	var found, steps []string
	for _, s := range []struct {
		name string
		on   bool
	}{{"autovacuum", e.facts.autovacuum}, {"track_counts", e.facts.trackCounts}} {
		if !s.on {
			found = append(found, s.name+" is off for the whole server")
			steps = append(steps, "ALTER SYSTEM SET "+s.name+" = on; SELECT pg_reload_conf();")
		}
	}
	for _, name := range without {
		found = append(found, "off for "+name)
		steps = append(steps, "ALTER TABLE "+name+" RESET (autovacuum_enabled);")
	}
	if len(found) > 0 {
		return wrong("Autovacuum: %s.", strings.Join(found, ", ")).advise(steps...)
	}
	return fine("Autovacuum is on for all tables of Belfry.")
}

// bloat describes a table that has too many dead rows. It returns "" for other tables.
func bloat(t *table) string {
	recent := t.vacuumed > 0 && duration(float64(t.vacuumed)) < lateVacuum
	if t.dead < manyDead || t.dead*5 < t.live || recent {
		return ""
	}
	last := "never vacuumed"
	if t.vacuumed > 0 {
		last = "last vacuumed " + duration(float64(t.vacuumed)).Round(time.Second).String() + " ago"
	}
	return fmt.Sprintf("belfry.%s has %d dead and %d live rows and was %s", t.name, t.dead, t.live, last)
}

func checkDeadRows(ctx context.Context, e *exam) outcome {
	bloated, err := named(ctx, e, bloat)
	if err != nil {
		return failed(err)
	}
	if len(bloated) == 0 {
		return fine("No table of Belfry has many dead rows.")
	}
	return warning("%s.", strings.Join(bloated, "; ")).advise(
		"See the checks held_snapshot and replication_slots, which find what stops vacuum.", "VACUUM (VERBOSE) belfry.cursor, belfry.partition, belfry.message, belfry.inbox;",
		"Raise autovacuum_max_workers, or lower autovacuum_vacuum_cost_delay.")
}

// completedRows describes the messages of a queue that every group has passed. The file of the statement describes the
// columns.
type completedRows struct {
	queue            string
	stored           int64
	age              float64
	kept, bytesOfRow int64
}

func (c *completedRows) String() string {
	until := "for ever"
	if c.kept > 0 {
		until = "for " + (time.Duration(c.kept) * time.Second).String()
	}
	return fmt.Sprintf("queue %q has %d (about %s), the oldest pushed %s ago, and keeps them %s",
		c.queue, c.stored, size(c.stored*c.bytesOfRow), duration(c.age).Round(time.Second), until)
}

// checkCompleted warns about queues that keep CompletedRows or more such messages without a time limit.
func checkCompleted(ctx context.Context, e *exam) outcome {
	queues, err := collect(ctx, e, sqlCompleted, func(row pgx.CollectableRow) (c completedRows, err error) {
		return c, row.Scan(&c.queue, &c.stored, &c.age, &c.kept, &c.bytesOfRow)
	}, int64(e.Retention.Seconds()))
	if err != nil {
		return failed(err)
	}
	var found, steps []string
	result := OK
	for i := range queues {
		c := &queues[i]
		found = append(found, c.String())
		if c.kept == 0 && c.stored >= e.Limits.CompletedRows {
			result = Warning
			steps = append(steps, "belfry queue configure "+shellWord(c.queue)+" --option retentionEnabled=true --option completedRetentionSeconds=604800")
		}
	}
	if len(found) == 0 {
		return fine("No message is stored that every group has passed.")
	}
	o := outcome{result: result, found: "Messages that every group has passed: " + strings.Join(found, "; ") + "."}
	if result == OK {
		return o
	}
	return o.advise(append([]string{"Set retention.completed on every server. It applies to queues without retentionEnabled."}, steps...)...)
}

// checkDisk examines the disk of the database, if the disk belongs to this machine. Postgres does not report
// the free space of its disk.
func checkDisk(_ context.Context, e *exam) outcome {
	if e.factsErr != nil {
		return failed(e.factsErr)
	}
	steps := []string{"df -h", "See the check replication_slots: a slot may keep WAL.", "Delete old messages: set retentionSeconds and completedRetentionSeconds of the large queues.", "Make the disk larger."}
	const elsewhere = "Postgres does not report the free space of its disk, and the disk does not belong to this machine."
	if !e.local() || e.facts.dataDirectory == "" {
		return unknown(elsewhere).advise("Watch the disk of the database with your own tools: warn at 20 % free.")
	}
	free, all, err := diskRoom(e.facts.dataDirectory)
	if _, missing := os.Stat(filepath.Join(e.facts.dataDirectory, "PG_VERSION")); err != nil || missing != nil {
		return unknown(elsewhere).advise("Watch the disk of the database with your own tools: warn at 20 % free.")
	}
	return judgeRoom(e.facts.dataDirectory, free, all).advise(steps...)
}

// judgeRoom judges the free space of the disk of a folder.
func judgeRoom(folder string, free, all uint64) outcome {
	o := fine("The disk of %s has %s free of %s.", folder, size(int64(free)), size(int64(all))) //nolint:gosec // no disk has 8 EiB
	switch {
	case free < minFree/4:
		o.result = Wrong
	case free < minFree || free*100 < all*minFreePercent && free < 16*minFree:
		o.result = Warning
	}
	return o
}

// local reports whether Postgres runs on this machine.
func (e *exam) local() bool {
	if e.session == nil {
		return false
	}
	host := e.session.Config().Host
	ip := net.ParseIP(host)
	return strings.HasPrefix(host, "/") || host == "localhost" || ip != nil && ip.IsLoopback()
}
