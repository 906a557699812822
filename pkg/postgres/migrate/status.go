package migrate

import (
	"context"
	"errors"
)

// Status is the state of the schema, compared with the binary.
type Status struct {
	// Version is the version in the record; 0 means that there is no schema yet.
	Version uint
	// Dirty means that the migration to Version failed. If Migrating is set, the migration is still running.
	Dirty bool
	// Migrating is the session that is migrating right now, or nil.
	Migrating *Holder
	// Latest is the version the binary was built for.
	Latest uint
	// Pending are the steps that Up would run after the repair of a dirty schema.
	Pending []Step
	// Problem is the reason why this binary cannot work with the schema:
	// LockedError, UnreleasedError, DirtyError, NewerError, OlderError, or nil.
	Problem error
}

// Status returns the state of the schema. It changes nothing, and does not wait
// for an instance that is migrating.
func (m *Migrator) Status(ctx context.Context) (Status, error) {
	v, err := load(m.cfg.Source)
	if err != nil {
		return Status{}, err
	}
	r, holder, err := m.readState(ctx)
	if err != nil {
		return Status{}, err
	}
	status := Status{
		Version: r.version, Dirty: r.dirty, Migrating: holder,
		Latest: v.latest(), Pending: v.after(r.applied()),
	}
	switch refused := v.refusal(r); {
	case refused == nil && len(status.Pending) == 0:
		// If an instance holds the lock, it will find nothing to migrate.
	case holder != nil:
		status.Problem = &LockedError{Holder: holder}
	case refused != nil:
		status.Problem = refused
	default:
		status.Problem = &OlderError{Schema: r.version, Binary: v.latest()}
	}
	return status, nil
}

// Plan returns the steps that Up would run now. It returns no steps if the schema is up to date. It changes nothing. It fails if
// Up would refuse or wait: UnreleasedError, DirtyError, NewerError, LockedError. It does not notice a stranger with the lock.
func (m *Migrator) Plan(ctx context.Context) ([]Step, error) {
	status, err := m.Status(ctx)
	if err != nil {
		return nil, err
	}
	var older *OlderError
	if status.Problem != nil && !errors.As(status.Problem, &older) {
		return nil, status.Problem
	}
	return status.Pending, nil
}

// Check returns nil if this binary can work with the schema. Otherwise it returns UnreleasedError, DirtyError, NewerError,
// OlderError or LockedError. It changes nothing and does not wait.
func (m *Migrator) Check(ctx context.Context) error {
	status, err := m.Status(ctx)
	if err != nil {
		return err
	}
	return status.Problem
}

// readState returns the record and the holder of the lock, without taking the lock. A running migration has a dirty record too.
// Only the holder of the lock distinguishes it from a failed migration. A migration may begin or end between the two queries, so
// readState repeats them until two rounds agree.
func (m *Migrator) readState(ctx context.Context) (record, *Holder, error) {
	s, err := m.connect(ctx)
	if err != nil {
		return record{}, nil, err
	}
	defer s.close(ctx)
	type view struct {
		version uint
		dirty   bool
		pid     int32
	}
	for before, first := (view{}), true; ; first = false {
		holder, err := s.holder(ctx)
		if err != nil {
			return record{}, nil, err
		}
		if holder != nil && holder.Stranger {
			holder = nil
		}
		r, err := s.record(ctx)
		if err != nil {
			return record{}, nil, err
		}
		now := view{version: r.version, dirty: r.dirty}
		if holder != nil {
			now.pid = holder.PID
		}
		if !first && now == before {
			return r, holder, nil
		}
		before = now
	}
}
