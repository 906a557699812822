package world

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	fillsDisk = "fill-disk"
	// volumeSize is the size of a volume. The WAL of two nodes needs at most 2 x 64 MB if checkpoints are in time.
	// The other half is for late checkpoints.
	volumeSize = "256m"
	// refillPause is the pause between two attempts to fill the space that Postgres has freed.
	refillPause = 20 * time.Millisecond
	// noticeTime is the maximum time for Postgres to notice the full disk, in addition to the time of the fault.
	// Postgres first uses its existing WAL files.
	noticeTime = 10 * time.Second
)

// volume is a small file system in memory, so that filling it affects nothing else.
type volume struct{ dir string }

// mountVolume mounts a volume on a folder that must not exist. It needs the permission to mount, which usually only
// root has. The caller must unmount the volume. After a killed run, a person must unmount it.
func mountVolume(ctx context.Context, dir string) (*volume, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making a folder for a volume: %w", err)
	}
	output, err := exec.CommandContext(ctx, "mount", "-t", "tmpfs", "-o", "size="+volumeSize+",mode=0755", "belfry-chaos", dir).CombinedOutput()
	if err != nil {
		complaint, _, _ := strings.Cut(string(output), "\n") // advice follows the first line
		err = fmt.Errorf("mounting a small tmpfs: %w: %s", err, complaint)
		return nil, errors.Join(err, os.Remove(dir))
	}
	return &volume{dir}, nil
}

func (v *volume) unmount(ctx context.Context) error {
	if output, err := exec.CommandContext(ctx, "umount", v.dir).CombinedOutput(); err != nil {
		return fmt.Errorf("unmounting %s: %w: %s", v.dir, err, strings.TrimSpace(string(output)))
	}
	return os.Remove(v.dir)
}

func (v *volume) filler() string { return filepath.Join(v.dir, "filler") }

// fill uses all free space.
func (v *volume) fill() error {
	file, err := os.OpenFile(v.filler(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("filling the disk: %w", err)
	}
	piece := make([]byte, 1<<20)
	for err == nil {
		_, err = file.Write(piece)
	}
	if errors.Is(err, syscall.ENOSPC) {
		err = nil
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("filling the disk: %w", err)
	}
	return nil
}

// empty frees the space that fill used.
func (v *volume) empty() error {
	if err := os.Remove(v.filler()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("emptying the disk: %w", err)
	}
	return nil
}

// cannotMount returns why this machine cannot mount a volume, or nil.
func cannotMount(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "belfry-chaos-volume-")
	if err != nil {
		return fmt.Errorf("making a folder for a volume: %w", err)
	}
	defer func() { err = errors.Join(err, os.Remove(dir)) }()
	v, err := mountVolume(ctx, filepath.Join(dir, "volume"))
	if err != nil {
		return err
	}
	return v.unmount(ctx)
}

// fillDisk leaves no space for WAL, and switches WAL files until Postgres notices. Postgres then stops with a PANIC.
// After fillDisk has freed the space, it starts Postgres, unless Postgres has restarted by itself.
func fillDisk(ctx context.Context, w *World, choose *rand.Rand) (what string, err error) {
	w.postgres.Lock()
	defer w.postgres.Unlock()
	d := hold(choose)
	// The repair always runs: first the space, then Postgres.
	defer func() { err = errors.Join(err, w.volume.empty(), w.revive(context.WithoutCancel(ctx))) }()
	if err := w.volume.fill(); err != nil {
		return "", err
	}
	begun, down := time.Now(), ""
	for since := time.Duration(0); since < d || down == "" && since < d+noticeTime; since = time.Since(begun) {
		if err := w.volume.fill(); err != nil {
			return "", err
		}
		if down == "" {
			if err := w.switchWAL(ctx); err != nil && !tooMany(err) {
				down = fmt.Sprintf(", Postgres went down after %s", time.Since(begun).Round(time.Millisecond))
			}
		}
		if !Pause(ctx, refillPause) {
			break
		}
	}
	return "full for " + time.Since(begun).Round(time.Millisecond).String() + down, nil
}

// tooMany reports whether Postgres has no free connection, because another fault took all of them.
func tooMany(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == "53300"
}

// switchWAL makes Postgres start a new WAL file.
func (w *World) switchWAL(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), adminPatience)
	defer cancel()
	conn, err := pgx.Connect(ctx, w.dsn())
	if err != nil {
		return fmt.Errorf("connecting to Postgres: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }() // Postgres may have closed it
	// Postgres switches a WAL file only after a change.
	for _, statement := range []string{"SELECT pg_create_restore_point('chaos')", "SELECT pg_switch_wal()"} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("running %q: %w", statement, err)
		}
	}
	return nil
}

// revive blocks until the primary answers. It starts a primary that has ended.
func (w *World) revive(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, clusterPatience)
	defer cancel()
	for {
		select {
		case <-w.primary().Done():
			if err := w.primary().Restart(ctx); err != nil {
				return fmt.Errorf("starting Postgres again: %w", err)
			}
			return nil
		default:
		}
		err := w.switchWAL(ctx)
		if err == nil {
			return nil
		}
		if !Pause(ctx, recoveryPause) {
			return fmt.Errorf("waiting for Postgres to come back: %w", err)
		}
	}
}
