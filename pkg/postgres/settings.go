package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlApplySettings     = sql.Query("postgres/apply_settings")
	sqlDifferingSettings = sql.Query("postgres/differing_settings")
)

// sessionSettings override the settings of the database, the role or the server (ALTER DATABASE ...
// SET) under which a statement of Belfry would fail or mean something else:
//
//   - an isolation level with which a statement does not see the commit that it waited for
//   - other text forms of values
//   - schemas before pg_catalog
//   - limits for interactive sessions
//   - commits that a crash loses
//
// The pool sets sessionSettings after connecting and not as startup parameters, because poolers refuse unknown startup
// parameters.
var sessionSettings = []struct {
	name, value string
	// perClient: poolers in transaction mode keep the setting for each client.
	perClient bool
	// unchecked: in a shared session another value is accepted. These settings are limits of sessions, and the search path, which
	// nobody sets with pg_catalog at its end.
	unchecked bool
	// insteadOf: only this value is replaced. Empty: every other value is replaced.
	insteadOf string
}{
	{name: "default_transaction_isolation", value: "read committed"},
	{name: "quote_all_identifiers", value: "off"},
	{name: "search_path", value: "pg_catalog, pg_temp", unchecked: true},
	{name: "client_encoding", value: "UTF8", perClient: true},
	{name: "standard_conforming_strings", value: "on", perClient: true},
	{name: "transform_null_equals", value: "off"},
	{name: "array_nulls", value: "on"},
	{name: "timezone", value: "UTC", perClient: true},
	{name: "datestyle", value: "ISO, MDY", perClient: true},
	{name: "intervalstyle", value: "postgres"},
	{name: "bytea_output", value: "hex"},
	{name: "extra_float_digits", value: "1"},
	{name: "lock_timeout", value: "0"},
	{name: "synchronous_commit", value: "on", insteadOf: "off"},
	{name: "idle_session_timeout", value: "0", unchecked: true},
	{name: "transaction_timeout", value: "0", unchecked: true}, // since Postgres 17
}

// planSettings pin the plans of the hot statements. Each hot statement has only one sensible plan: nested loops over index scans.
// On a fresh database without statistics the planner chooses other plans, caches them, and keeps them while the tables grow.
const planSettings = `
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_bitmapscan = off;
SET enable_nestloop = on;
SET enable_indexscan = on;
SET enable_indexonlyscan = on;
SET jit = off`

// settingColumns returns sessionSettings as the columns of a query, with or without the unchecked settings.
func settingColumns(unchecked bool) (names, values, insteadOf []string) {
	for _, s := range sessionSettings {
		if unchecked || !s.unchecked {
			names, values, insteadOf = append(names, s.name), append(values, s.value), append(insteadOf, s.insteadOf)
		}
	}
	return names, values, insteadOf
}

// applySettings sets sessionSettings in the session of conn.
func applySettings(ctx context.Context, conn *pgx.Conn) error {
	names, values, insteadOf := settingColumns(true)
	// The statement is not prepared, because a session needs it only once.
	_, err := conn.Exec(ctx, sqlApplySettings, pgx.QueryExecModeExec, names, values, insteadOf)
	return err
}

// ConfigureSession makes the session of conn independent of the settings of the
// database, the role and the server. It returns ErrTransactionPooled if a pooler in
// transaction mode makes that impossible.
func ConfigureSession(ctx context.Context, conn *pgx.Conn) error {
	pooled, err := TransactionPooled(ctx, conn)
	if err != nil {
		return fmt.Errorf("looking for a pooler: %w", err)
	}
	if pooled {
		return ErrTransactionPooled
	}
	return applySettings(ctx, conn)
}

// checkSettings returns a settingsError if a setting of conn differs from sessionSettings. Use it for connections with a shared
// session.
func checkSettings(ctx context.Context, conn *pgx.Conn) error {
	names, values, insteadOf := settingColumns(false)
	rows, err := conn.Query(ctx, sqlDifferingSettings, names, values, insteadOf)
	if err != nil {
		return err
	}
	var found, remedy []string
	var name, current, value, role, database string
	if _, err := pgx.ForEachRow(rows, []any{&name, &current, &value, &role, &database}, func() error {
		found = append(found, fmt.Sprintf("%s is '%s'", name, current))
		remedy = append(remedy, fmt.Sprintf("ALTER ROLE %s IN DATABASE %s SET %s = '%s';", role, database, name, value))
		return nil
	}); err != nil || found == nil {
		return err
	}
	return &settingsError{found: found, remedy: remedy}
}

// settingsError says that the sessions of a pooler have settings with which Belfry cannot work.
type settingsError struct{ found, remedy []string }

func (e *settingsError) Error() string {
	return fmt.Sprintf("database.url goes through a pooler in transaction mode, where Belfry cannot set what its statements need, and %s. "+
		"Use a pool in session mode, leave the pooler out, or give Belfry a role of its own with %s and make the pooler connect again (RECONNECT)",
		strings.Join(e.found, ", "), strings.Join(e.remedy, " "))
}

// OpenSession opens one connection, for a command. It has the settings of the pool. It returns ErrTransactionPooled if the url
// leads through a pooler in transaction mode. Errors do not contain the password.
func OpenSession(ctx context.Context, url, application string) (*pgx.Conn, error) {
	cfg, err := ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", DirectKeys, err)
	}
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = application
	}
	cfg.OnNotice = noteUnconfirmed
	conn, err := Connect(ctx, cfg, DirectKeys)
	if err != nil {
		return nil, err
	}
	err = ConfigureSession(ctx, conn)
	if err == nil {
		_, err = conn.PgConn().Exec(ctx, planSettings).ReadAll()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("preparing the connection: %w", err), conn.Close(context.WithoutCancel(ctx)))
	}
	return conn, nil
}
