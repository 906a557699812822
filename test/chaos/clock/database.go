package clock

import (
	"context"
	_ "embed"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// source is a library in C. Postgres reads the clock with the function that the library replaces.
//
//go:embed gettimeofday.c.txt
var source []byte

// offsetVariable is the environment variable with the file that has the offset, in microseconds.
const offsetVariable = "BELFRY_CHAOS_CLOCK"

// Database steps the clock of a Postgres that runs with Env.
type Database struct {
	library string
	offset  *os.File
}

// NewDatabase builds the library in the folder dir, which the account of Postgres can enter. It needs a C compiler and Linux.
func NewDatabase(ctx context.Context, dir string) (*Database, error) {
	written, library := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so")
	if err := os.WriteFile(written, source, 0o644); err != nil {
		return nil, fmt.Errorf("writing the clock of Postgres: %w", err)
	}
	if output, err := exec.CommandContext(ctx, "cc", "-shared", "-fPIC", "-O1", "-o", library, written).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compiling the clock of Postgres (install a C compiler): %w\n%s", err, output)
	}
	offset, err := os.OpenFile(filepath.Join(dir, "offset"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("making the offset of the clock of Postgres: %w", err)
	}
	d := &Database{library, offset}
	return d, d.Step(0)
}

// Env returns the environment variables for Postgres.
func (d *Database) Env() []string {
	return []string{"LD_PRELOAD=" + d.library, offsetVariable + "=" + d.offset.Name()}
}

// Step sets the difference between the clock of Postgres and the clock of the machine. All processes of Postgres see it at once.
func (d *Database) Step(offset time.Duration) error {
	if _, err := d.offset.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(offset.Microseconds())), 0); err != nil {
		return fmt.Errorf("stepping the clock of Postgres: %w", err)
	}
	return nil
}

// Close closes the file with the offset.
func (d *Database) Close() error { return d.offset.Close() }
