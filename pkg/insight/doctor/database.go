package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/postgres/listen"
	"github.com/belfry-mq/belfry/pkg/postgres/migrate"
	"github.com/belfry-mq/belfry/sql"
)

// The versions of Postgres that are tested.
const (
	oldestPostgres = 140000
	newestPostgres = 189999
)

// lastSupport has the day of the last release of each major version of Postgres, from
// https://www.postgresql.org/support/versioning/. docs/compatibility.md has the same days.
var lastSupport = map[int64]string{14: "2026-11-12", 15: "2027-11-11", 16: "2028-11-09", 17: "2029-11-08", 18: "2030-11-14"}

const (
	// channel is the channel of the notification that a doctor sends to itself.
	channel = "belfry_doctor"
	// hearTimeout is how long that notification may take to arrive.
	hearTimeout = 3 * time.Second
	// maxTransactionAge is an age in transactions. If the oldest transaction id is older, the check warns. At about
	// two billion, Postgres stops writing.
	maxTransactionAge = 1_000_000_000
)

var (
	sqlClock  = sql.Query("insight/doctor/clock")
	sqlNotify = sql.Query("insight/doctor/notify")
	sqlClosed = sql.Query("insight/doctor/closed")
)

// databaseChecks examine the connection to the database, and whether Belfry can work with the database.
var databaseChecks = []check{
	{"database_connection", "Belfry keeps everything in the database.", checkConnection},
	{"postgres_version", "Belfry is tested with Postgres 14 to 18, and writes only to a primary.", judged(judgeVersion)},
	{"schema_version", "A server works only with the schema that it was built for.", checkSchema},
	{"role_rights", "If the role lacks a right, the statements that need the right fail, and their requests fail too.", checkRights},
	{"pooler_mode", "LISTEN, migrations and the sequencer each need a session. A pooler in transaction mode shares its sessions, so they cannot work.", checkPooler},
	{"listen", "An instance that hears no notifications finds messages of other instances only by timer.", checkListen},
	{"notification_queue", "When the notification queue is full, no transaction with a notification can commit.", judged(judgeNotifications)},
	{"clock_difference", "The clock of the database decides what is due. The clock of the server decides how long a request waits and whether a token is valid.", checkClock},
	{"transaction_ids", "Without vacuum, Postgres runs out of transaction ids and stops writing.", judged(judgeTransactionIDs)},
}

func checkConnection(_ context.Context, e *exam) outcome {
	if e.connectErr != nil {
		return wrong("The database cannot be reached: %v.", e.connectErr).advise(
			"Check that Postgres runs, that database.url (and database.listen_url) are right, and that it accepts connections (max_connections, pg_hba.conf).")
	}
	return fine("Connected to %s in %s.", e.target, e.took.Round(time.Millisecond))
}

func judgeVersion(e *exam, f *facts) outcome {
	switch {
	case f.standby:
		return wrong("The server is a standby, which accepts no writes.").advise("Point database.url at the primary, or add target_session_attrs=read-write to it.")
	case f.version < oldestPostgres:
		return wrong("Postgres is version %s.", f.versionText).advise("Upgrade Postgres to version 14 or later.")
	case f.version > newestPostgres:
		return warning("Postgres is version %s, with which Belfry was not tested.", f.versionText).advise("Read the changelog of Belfry for a version that supports it.")
	}
	if last := lastSupport[f.version/10000]; last != "" && e.Now().UTC().Format(time.DateOnly) > last {
		return warning("Postgres is version %s, which gets no fixes since %s. Belfry still works with it.", f.versionText, last).
			advise("Plan the upgrade of Postgres. You need not change Belfry.")
	}
	return fine("Postgres is version %s and a primary.", f.versionText)
}

func checkSchema(ctx context.Context, e *exam) outcome {
	if e.connectErr != nil {
		return failed(e.connectErr)
	}
	if e.pooled {
		return unknown("The check cannot read the schema through a pooler in transaction mode: see pooler_mode.")
	}
	status, err := migrate.New(migrate.Config{URL: e.URL.Reveal()}, nil).Status(ctx)
	var locked *migrate.LockedError
	switch {
	case err != nil:
		return failed(err)
	case errors.As(status.Problem, &locked):
		return warning("The schema is being migrated: %v.", status.Problem).advise("Wait until the migration has ended, then check again.")
	case status.Problem != nil:
		return wrong("The schema does not fit this program: %v.", status.Problem).advise("belfry migrate status", "belfry migrate plan", "belfry migrate up")
	}
	return fine("The schema has version %d, as this program needs.", status.Version)
}

func checkRights(ctx context.Context, e *exam) outcome {
	var missing []string
	err := e.query(ctx, func(tx pgx.Tx) (err error) {
		missing, err = postgres.MissingRights(ctx, tx)
		return err
	})
	if err != nil {
		return failed(err)
	}
	if len(missing) == 0 {
		return checkRoles(ctx, e)
	}
	o := wrong("The role %q lacks %s.", e.facts.role, strings.Join(missing, ", "))
	role := pgx.Identifier{e.facts.role}.Sanitize()
	for _, right := range missing {
		o = o.advise("GRANT " + right + " TO " + role + ";")
	}
	return o
}

// checkRoles examines the roles of members. It runs only if the role of this program has every right.
func checkRoles(ctx context.Context, e *exam) outcome {
	type closed struct{ What, Mend string }
	found, err := collect(ctx, e, sqlClosed, pgx.RowToStructByPos[closed])
	if err != nil {
		return failed(err)
	}
	if len(found) == 0 {
		return fine("The role %q has every right on the schema belfry, and the roles of members have the rights that they need.", e.facts.role)
	}
	whats := make([]string, len(found))
	for i, role := range found {
		whats[i] = role.What
	}
	o := wrong("A setting of the database takes rights from members that they need: %s.", strings.Join(whats, ", "))
	for _, role := range found {
		o = o.advise(role.Mend)
	}
	return o
}

func checkPooler(ctx context.Context, e *exam) outcome {
	const remedy = "Set database.listen_url to a URL that reaches Postgres directly, or through a pool in session mode."
	switch {
	case e.pooledErr != nil:
		return failed(e.pooledErr)
	case e.pooled:
		return wrong("database.listen_url (without it: database.url) leads through a pooler in transaction mode.").advise(remedy)
	case e.PoolURL == "" || e.PoolURL == e.URL:
		return fine("No pooler in transaction mode is between here and Postgres.")
	}
	config, err := postgres.ParseURL(e.PoolURL.Reveal())
	if err != nil {
		return failed(err)
	}
	config.RuntimeParams["application_name"] = application
	conn, err := postgres.Connect(ctx, config, "database.url")
	if err != nil {
		return failed(err)
	}
	defer func() { _ = conn.Close(ctx) }() // it only read
	pooled, err := postgres.TransactionPooled(ctx, conn)
	if err != nil {
		return failed(err)
	}
	if pooled {
		return fine("database.url leads through a pooler in transaction mode, and database.listen_url does not.")
	}
	return fine("Neither database.url nor database.listen_url leads through a pooler in transaction mode.")
}

func checkListen(ctx context.Context, e *exam) outcome {
	o := hear(ctx, e)
	if e.Process == nil || o.result == Wrong {
		return o
	}
	state, proof := e.Process.Listener()
	if state == string(listen.StateProven) {
		o.found += fmt.Sprintf(" The listener of the instance heard its own notification %s ago.", proof.Round(time.Millisecond))
		return o
	}
	return wrong("The listener of the instance is %s: it heard no notification of its own for %s.", state, proof.Round(time.Second)).advise(listenSteps...)
}

var listenSteps = []string{
	"Check that database.listen_url reaches Postgres directly.",
	"belfry waiting -o jsonpath='$.listener'",
	"Look for the reason in the log of the instance.",
}

// hear sends a notification and waits for it.
func hear(ctx context.Context, e *exam) outcome {
	if e.pooledErr != nil {
		return failed(e.pooledErr)
	}
	if e.pooled {
		return unknown("LISTEN does not work through a pooler in transaction mode: see pooler_mode.")
	}
	if e.session.IsClosed() {
		return unknown("The connection was lost.")
	}
	ctx, cancel := context.WithTimeout(ctx, hearTimeout)
	defer cancel()
	text := rand.Text()
	began := time.Now()
	_, err := e.session.Exec(ctx, "LISTEN "+channel)
	if err == nil {
		_, err = e.session.Exec(ctx, sqlNotify, channel, text)
	}
	if err != nil {
		return wrong("A notification could not be sent: %v.", err).advise(listenSteps...)
	}
	for {
		heard, err := e.session.WaitForNotification(ctx)
		if err != nil {
			return wrong("A notification was sent and did not arrive within %s.", hearTimeout).advise(listenSteps...)
		}
		if heard.Payload == text {
			break
		}
	}
	took := time.Since(began)
	if _, err := e.session.Exec(ctx, "UNLISTEN "+channel); err != nil {
		return failed(err)
	}
	return fine("A notification arrived within %s.", took.Round(10*time.Microsecond))
}

func judgeNotifications(_ *exam, f *facts) outcome {
	used := 100 * f.notificationQueue
	steps := []string{
		"SELECT pid, usename, application_name, state, xact_start FROM pg_stat_activity WHERE xact_start IS NOT NULL ORDER BY xact_start LIMIT 5;",
		"End the session that listens and is in the oldest transaction: SELECT pg_terminate_backend(PID);",
	}
	switch {
	case used >= 50:
		return wrong("The notification queue of Postgres is %.0f %% full.", used).advise(steps...)
	case used >= 10:
		return warning("The notification queue of Postgres is %.0f %% full.", used).advise(steps...)
	}
	return fine("The notification queue of Postgres is %.1f %% full.", used)
}

// checkClock compares the clocks. The error of the measured difference is at most half of the query's duration.
func checkClock(ctx context.Context, e *exam) outcome {
	var database, before, after time.Time
	err := e.query(ctx, func(tx pgx.Tx) error {
		before = e.Now()
		err := tx.QueryRow(ctx, sqlClock).Scan(&database)
		after = e.Now()
		return err
	})
	if err != nil {
		return failed(err)
	}
	half := after.Sub(before) / 2
	ahead := database.Sub(before.Add(half))
	off := max(ahead.Abs()-half, 0)
	found := fmt.Sprintf("The clock of the database is %s %s the clock of this program.", ahead.Abs().Round(time.Millisecond), map[bool]string{true: "behind", false: "ahead of"}[ahead < 0])
	steps := []string{"timedatectl status", "chronyc tracking", "Set the same NTP servers on both machines."}
	switch {
	case off >= 2*e.Limits.Clock:
		return outcome{result: Wrong, found: found}.advise(steps...)
	case off >= e.Limits.Clock:
		return outcome{result: Warning, found: found}.advise(steps...)
	}
	return fine("The clocks of the database and this program differ by %s.", ahead.Abs().Round(time.Millisecond))
}

func judgeTransactionIDs(_ *exam, f *facts) outcome {
	if f.transactionAge < maxTransactionAge {
		return fine("The oldest transaction id is %d transactions old.", f.transactionAge)
	}
	o := warning("The oldest transaction id is %d transactions old; at about 2,000,000,000 Postgres stops writing.", f.transactionAge)
	if f.transactionAge > maxTransactionAge+maxTransactionAge/2 {
		o.result = Wrong
	}
	return o.advise("See the checks held_snapshot and replication_slots, which find what stops vacuum.", "VACUUM (FREEZE, VERBOSE);")
}
