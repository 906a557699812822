package devdb

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const lockName = "lock"

// InUseError means that another process, or another Cluster of this process, owns the folder.
// PID is 0 when the owner has not written the lock file yet. Port is 0 while its Postgres
// starts.
type InUseError struct {
	Dir   string
	PID   int
	Since time.Time
	Port  int
}

func (e *InUseError) Error() string {
	holder := "another process"
	if e.PID != 0 {
		holder = fmt.Sprintf("process %d since %s", e.PID, e.Since.Local().Format(time.DateTime))
	}
	if e.Port != 0 {
		holder += fmt.Sprintf(", its Postgres is on port %d", e.Port)
	}
	return fmt.Sprintf("the cluster in %s is in use by %s: use that one, stop it, or choose another folder", e.Dir, holder)
}

// holder is the content of the lock file. It is only information for error texts. The lock
// itself is the flock, which the kernel releases when the owner dies.
type holder struct {
	PID   int       `json:"pid"`
	Since time.Time `json:"since"`
	Port  int       `json:"port"`
}

// lock is the right to run the cluster of one folder.
type lock struct {
	file   *os.File
	holder holder
}

// acquire takes the lock of dir without waiting. If another owner holds it, acquire returns
// an *InUseError. No release removes the file, because a lock on a removed file would
// exclude no process.
func acquire(dir string) (*lock, error) {
	name := filepath.Join(dir, lockName)
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of the cluster: %w", err)
	}
	if err := flock(file, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer func() { _ = file.Close() }() // nothing was written
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, inUse(dir, file)
		}
		return nil, fmt.Errorf("locking %s: %w", name, err)
	}
	l := &lock{file: file, holder: holder{PID: os.Getpid(), Since: time.Now().UTC()}}
	if err := l.writeHolder(0); err != nil {
		return nil, errors.Join(err, l.release())
	}
	return l, nil
}

func inUse(dir string, file *os.File) error {
	e := &InUseError{Dir: dir}
	var h holder
	// A file that is being written does not parse. Then the error does not name the holder.
	if content, err := io.ReadAll(file); err == nil && json.Unmarshal(content, &h) == nil {
		e.PID, e.Since, e.Port = h.PID, h.Since, h.Port
	}
	return e
}

// writeHolder writes the holder with its port into the lock file.
func (l *lock) writeHolder(port int) error {
	l.holder.Port = port
	content, err := json.Marshal(l.holder)
	if err != nil {
		return fmt.Errorf("describing the holder of the lock: %w", err)
	}
	if err := l.file.Truncate(0); err != nil {
		return fmt.Errorf("writing the lock of the cluster: %w", err)
	}
	if _, err := l.file.WriteAt(append(content, '\n'), 0); err != nil {
		return fmt.Errorf("writing the lock of the cluster: %w", err)
	}
	return nil
}

// release releases the lock. It unlocks explicitly, because a child between fork and exec
// shares the file for a moment, and then closing would not unlock it.
func (l *lock) release() error {
	err := flock(l.file, syscall.LOCK_UN)
	if closeErr := l.file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("releasing the lock of the cluster: %w", err)
	}
	return nil
}

// flock calls flock(2) and retries after EINTR.
func flock(file *os.File, how int) error {
	for {
		err := syscall.Flock(int(file.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
