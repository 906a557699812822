package schema

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// dropFile is the only file of sql/schema that creates nothing.
const dropFile = "schema/drop.sql"

// first lists the files that other files need when Postgres runs them, in order. These are tables, the objects that tables
// need, and functions in LANGUAGE sql, whose bodies Postgres checks at once. All other functions follow, sorted by path.
var first = []string{
	"schema/queue.sql",
	"schema/tenant.sql",
	"schema/partition.sql",
	"schema/message.sql",
	"schema/consumer_group.sql",
	"schema/group_deleted.sql",
	"schema/group_limit.sql",
	"schema/limit_slot.sql",
	"schema/limit_bucket.sql",
	"schema/limit_number.sql",
	"schema/breaker.sql",
	"schema/breaker_count.sql",
	"schema/outcome.sql",
	"schema/cursor.sql",
	"functions/ack/error_shape.sql",
	"schema/dead_letter.sql",
	"schema/redrive.sql",
	"schema/attempt.sql",
	"schema/resent.sql",
	"schema/trace.sql",
	"schema/trace_name.sql",
	"schema/sweep.sql",
	"schema/queue_sweep.sql",
	"schema/stream.sql",
	"schema/stream_state.sql",
	"schema/stream_cycle.sql",
	"schema/audit.sql",
	"schema/audit_undo.sql",
	"schema/audit_places.sql",
	"schema/redrive_job.sql",
	"schema/revoked_token.sql",
	"schema/setting.sql",
	"schema/spool.sql",
	"schema/history.sql",
	"schema/history_instance.sql",
	"schema/channel_key.sql",
	"functions/inbox/inbox_notify.sql",
	"schema/inbox.sql",
	"schema/outbox.sql",
	"schema/inbox_rejected.sql",
	"functions/schedule/schedule_notify.sql",
	"schema/schedule.sql",
	"schema/schedules.sql",
	"functions/attach/is_utf8.sql",
	"functions/attach/owns_table.sql",
	"functions/attach/forget_attachments.sql",
	"functions/attach/trim_attachment_failures.sql",
	"schema/attachment.sql",
	"schema/attachment_failure.sql",
	"schema/attachments.sql",
	"schema/queue_grant.sql",
	"schema/grants.sql",
	"schema/claim_row.sql",
	"schema/ack_row.sql",
	"schema/ack_change.sql",
	"functions/claim/due_at.sql",
	"functions/claim/redrives_ready_at.sql",
	"functions/claim/ready_at.sql",
	"functions/claim/delivery_bytes.sql",
	"functions/ack/lease_begin.sql",
}

// last are the files that need all other files.
var last = []string{"schema/roles.sql"}

// Create returns the statements that create the schema, in an order that Postgres can run. sqlDir is the folder sql.
func Create(sqlDir fs.FS) (string, error) {
	names, err := order(sqlDir)
	if err != nil {
		return "", err
	}
	var statements strings.Builder
	statements.WriteString("CREATE SCHEMA IF NOT EXISTS belfry;\n")
	for _, name := range names {
		text, err := fs.ReadFile(sqlDir, name)
		if err != nil {
			return "", fmt.Errorf("reading a source of the schema: %w", err)
		}
		fmt.Fprintf(&statements, "\n-- From sql/%s.\n\n%s", name, text)
	}
	// pkg/postgres/migrate compares this digest to detect a baseline from an earlier, unreleased version.
	digest := sha256.Sum256([]byte(statements.String()))
	fmt.Fprintf(&statements, "COMMENT ON FUNCTION belfry.baseline() IS '%x';\n", digest)
	return statements.String(), nil
}

// Drop returns the statements that undo Create.
func Drop(sqlDir fs.FS) (string, error) {
	text, err := fs.ReadFile(sqlDir, dropFile)
	if err != nil {
		return "", fmt.Errorf("reading a source of the schema: %w", err)
	}
	return string(text), nil
}

// order returns the paths of the sources in the order in which Create needs them. It returns an error if a file of
// sql/schema is in neither first nor last.
func order(sqlDir fs.FS) ([]string, error) {
	tables, err := fs.Glob(sqlDir, "schema/*.sql")
	if err != nil {
		return nil, fmt.Errorf("listing sql/schema: %w", err)
	}
	functions, err := fs.Glob(sqlDir, "functions/*/*.sql")
	if err != nil {
		return nil, fmt.Errorf("listing sql/functions: %w", err)
	}
	for _, name := range tables {
		if name != dropFile && !slices.Contains(first, name) && !slices.Contains(last, name) {
			return nil, fmt.Errorf("sql/%s is missing in the order of creation: add it to test/schema/source.go", name)
		}
	}
	names := slices.Clone(first)
	for _, name := range functions {
		if !slices.Contains(first, name) {
			names = append(names, name)
		}
	}
	return append(names, last...), nil
}
