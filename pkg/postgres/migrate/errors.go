package migrate

import (
	"fmt"
	"strings"
	"time"
)

// DirtyError says that a migration failed and needs a repair.
type DirtyError struct {
	// Version is the target of the failed migration; 0 is the empty schema.
	Version uint
	// Previous is the version the schema still has. It is valid only if Known is true.
	Previous uint
	// Known is false when another tool wrote the record.
	Known bool
}

// Error says what dirty means and which commands repair it.
func (e *DirtyError) Error() string {
	if !e.Known {
		return fmt.Sprintf("the schema is marked dirty at version %d and the record does not say which version it came from: "+
			"compare the tables with that migration, run \"belfry migrate force %d\" if its changes are there "+
			"or \"belfry migrate force N\" with the version whose changes are, then \"belfry migrate up\"", e.Version, e.Version)
	}
	again := "belfry migrate up"
	if e.Version < e.Previous {
		again = "belfry migrate down"
	}
	return fmt.Sprintf("the schema is marked dirty at version %d: the migration from version %d to version %d failed. "+
		"It was rolled back, nothing of it is left and the schema is still at version %d. "+
		"Remove the cause (the failed run printed it), then run \"belfry migrate force %d\" and \"%s\"",
		e.Version, e.Previous, e.Version, e.Previous, e.Previous, again)
}

// NewerError says that a newer binary has migrated the schema.
type NewerError struct {
	// Schema is the version in the database. Binary is the latest version that this binary knows.
	Schema, Binary uint
}

// Error names both versions and the remedy.
func (e *NewerError) Error() string {
	return fmt.Sprintf("the schema is at version %d and this binary knows versions up to %d: "+
		"use a newer binary, or go back to version %d with \"belfry migrate down\" of the binary that made version %d "+
		"(going back destroys data)", e.Schema, e.Binary, e.Binary, e.Schema)
}

// UnreleasedError says that an unreleased version of Belfry made the schema.
type UnreleasedError struct {
	// Version is the number in the database. It is a number of the unreleased version, which has other migrations than this
	// binary.
	Version uint
}

// Error says that the schema cannot be migrated, and how to replace it.
func (e *UnreleasedError) Error() string {
	return fmt.Sprintf("an unreleased version of Belfry made the schema (its version %d), and no release can migrate it: "+
		"save the messages you still need, detach the tables that belfry.attachments lists with belfry.detach, "+
		"run \"DROP SCHEMA belfry CASCADE\", which deletes every message, and then \"belfry migrate up\"", e.Version)
}

// OlderError says that migrations are pending.
type OlderError struct {
	// Schema is the version in the database. Binary is the version that this binary needs.
	Schema, Binary uint
}

// Error names both versions and the remedy.
func (e *OlderError) Error() string {
	at := fmt.Sprintf("is at version %d", e.Schema)
	if e.Schema == 0 {
		at = "has not been created"
	}
	return fmt.Sprintf("the schema %s and this binary needs version %d: run \"belfry migrate up\", "+
		"or set database.migrate_on_start", at, e.Binary)
}

// Holder is the session that holds the migration lock.
type Holder struct {
	// PID is 0 for a prepared transaction.
	PID int32
	// Role is the role that logged in. Application and Address are empty if the role of this session may not read them.
	Role, Application, Address string
	// Stranger: the holder is not migrating, because its role may not create tables in the schema, or because there is no session.
	// Each role that may connect can take the lock.
	Stranger bool
}

// String describes the session for a message. If h is nil, the session was not found.
func (h *Holder) String() string {
	if h == nil {
		return "its session is gone"
	}
	if h.PID == 0 {
		return "a prepared transaction, see pg_prepared_xacts"
	}
	parts := []string{fmt.Sprintf("pid %d", h.PID)}
	if h.Role != "" {
		parts = append(parts, fmt.Sprintf("role %q", h.Role))
	}
	if h.Application != "" {
		parts = append(parts, fmt.Sprintf("application %q", h.Application))
	}
	if h.Address != "" {
		parts = append(parts, "from "+h.Address)
	}
	return strings.Join(parts, ", ")
}

// LockedError says that another instance is migrating, or that a stranger holds the lock.
type LockedError struct {
	// Waited is the time this instance has waited; 0 if it did not wait.
	Waited time.Duration
	// Holder is nil if the session was not found.
	Holder *Holder
}

// Error names the other session and the remedy.
func (e *LockedError) Error() string {
	if e.Holder != nil && e.Holder.Stranger {
		end := fmt.Sprintf("SELECT pg_terminate_backend(%d)", e.Holder.PID)
		if e.Holder.PID == 0 {
			end = "ROLLBACK PREPARED"
		}
		return fmt.Sprintf("a session that may not migrate has held the migration lock for at least %s (%s): end it with %q "+
			"and start again; to keep the role out, run \"REVOKE CONNECT ON DATABASE\" for it and for PUBLIC",
			e.Waited.Round(time.Millisecond), e.Holder, end)
	}
	if e.Waited == 0 {
		return fmt.Sprintf("another instance is migrating the schema right now (%s): wait until it has finished", e.Holder)
	}
	text := fmt.Sprintf("another instance has been migrating the schema for %s (%s): "+
		"wait until it has finished and start again, or raise database.migrate_lock_timeout", e.Waited.Round(time.Millisecond), e.Holder)
	if e.Holder != nil {
		text += fmt.Sprintf("; if it hangs, end it with \"SELECT pg_terminate_backend(%d)\": its migration is rolled back", e.Holder.PID)
	}
	return text
}
