package devdb

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

const lockName = "lock"

// Holder is the content of the lock file, for error texts. The lock itself is the flock, which the kernel releases when the
// holder dies. Until a new holder has written the file, the file names the previous holder. PID is 0 if the file is unreadable or
// was never written. Port is 0 while the Postgres of the holder starts.
type Holder struct {
	PID   int       `json:"pid"`
	Since time.Time `json:"since"`
	Port  int       `json:"port"`
}

// InUseError means that another process, or another Cluster of this process, holds the folder.
type InUseError struct {
	Dir string
	Holder
}

func (e *InUseError) Error() string {
	holder := "another process"
	if e.PID != 0 {
		holder = fmt.Sprintf("process %d since %s", e.PID, e.Since.Local().Format(time.DateTime))
	}
	if e.Port != 0 {
		holder += fmt.Sprintf(", its Postgres is on port %d", e.Port)
	}
	return fmt.Sprintf("the cluster in %s is in use by %s: use its Postgres, stop it, or choose another folder", e.Dir, holder)
}

// lock is the held lock of one folder. Only its holder may run the cluster.
type lock struct {
	file   *flock.Flock
	holder Holder
}

// acquire takes the lock of dir without waiting. If another holder has it, acquire returns an *InUseError. release does not
// remove the file. Otherwise a process that opened the file before its removal could lock it while another process locks a new
// file.
func acquire(dir string) (*lock, error) {
	l := &lock{
		file:   flock.New(filepath.Join(dir, lockName)),
		holder: Holder{PID: os.Getpid(), Since: time.Now().UTC()},
	}
	got, err := l.file.TryLock()
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", l.file.Path(), err)
	}
	if !got {
		e := &InUseError{Dir: dir}
		// The file may be unreadable while the holder writes it. The error then names no process.
		if content, err := os.ReadFile(l.file.Path()); err == nil {
			_ = json.Unmarshal(content, &e.Holder)
		}
		return nil, e
	}
	if err := l.writeHolder(0); err != nil {
		return nil, errors.Join(err, l.release())
	}
	return l, nil
}

// writeHolder writes the holder with its port into the lock file.
func (l *lock) writeHolder(port int) error {
	l.holder.Port = port
	content, err := json.Marshal(l.holder)
	if err == nil {
		err = os.WriteFile(l.file.Path(), append(content, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("writing the lock of the cluster: %w", err)
	}
	return nil
}

// release releases the lock. A second release does nothing.
func (l *lock) release() error {
	if err := l.file.Unlock(); err != nil {
		return fmt.Errorf("releasing the lock of the cluster: %w", err)
	}
	return nil
}
