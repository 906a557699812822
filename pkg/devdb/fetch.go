package devdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	embedded "github.com/fergusstrange/embedded-postgres"
	"go.uber.org/zap"
)

const (
	mavenCentral = "https://repo1.maven.org/maven2"
	fetchVersion = embedded.V17
	fetchMajor   = "17"
)

// fetcher obtains the programs of Postgres from a Maven repository and keeps
// them in cache, one folder per version.
type fetcher struct {
	cache      string
	repository string
	log        *zap.Logger
}

// fetch returns the folder with the programs, downloading them at the first
// time.
func (f fetcher) fetch(ctx context.Context) (string, error) {
	home := filepath.Join(f.cache, string(fetchVersion))
	binDir := filepath.Join(home, "bin")
	if len(missingFrom(binDir)) == 0 {
		return binDir, nil
	}
	if err := os.MkdirAll(f.cache, 0o755); err != nil {
		return "", fmt.Errorf("making a place for Postgres: %w", err)
	}
	// Work happens aside and is renamed when whole: a crash or a second process
	// fetching at the same time must not leave half a Postgres.
	work, err := os.MkdirTemp(f.cache, "fetch-")
	if err != nil {
		return "", fmt.Errorf("making a place for Postgres: %w", err)
	}
	f.log.Info("fetching Postgres, this happens once",
		zap.String("version", string(fetchVersion)), zap.String("from", f.repository), zap.String("to", home))
	err = f.extract(ctx, work)
	if err == nil {
		err = settle(filepath.Join(work, "extracted"), home)
	}
	return binDir, errors.Join(err, os.RemoveAll(work))
}

// settle puts the extracted programs in place, unless another process was
// faster.
func settle(from, home string) error {
	if len(missingFrom(filepath.Join(home, "bin"))) == 0 {
		return nil
	}
	if err := os.RemoveAll(home); err != nil {
		return fmt.Errorf("clearing an incomplete Postgres: %w", err)
	}
	if err := os.Rename(from, home); err != nil {
		return fmt.Errorf("putting Postgres in place: %w", err)
	}
	return nil
}

// extract downloads and unpacks into work/extracted. The library can only do so
// on its way to starting a server. It would make a cluster as the user it runs
// as, which fails for root, so it is shown a data folder that looks kept: it
// leaves that alone and fails at starting on it. What counts is whether the
// programs are there.
func (f fetcher) extract(ctx context.Context, work string) error {
	extracted, decoy := filepath.Join(work, "extracted"), filepath.Join(work, "decoy")
	if err := os.Mkdir(decoy, 0o700); err != nil {
		return fmt.Errorf("preparing to fetch Postgres: %w", err)
	}
	if err := os.WriteFile(filepath.Join(decoy, "PG_VERSION"), []byte(fetchMajor+"\n"), 0o600); err != nil {
		return fmt.Errorf("preparing to fetch Postgres: %w", err)
	}
	relay, err := newRelay(ctx, f.repository)
	if err != nil {
		return err
	}
	server := embedded.NewDatabase(embedded.DefaultConfig().
		Version(fetchVersion).
		Port(0).
		CachePath(filepath.Join(work, "archive")).
		RuntimePath(filepath.Join(work, "runtime")).
		DataPath(decoy).
		BinariesPath(extracted).
		BinaryRepositoryURL(relay.url).
		Logger(io.Discard))
	started := server.Start()
	if started == nil {
		err = server.Stop()
	}
	if err = errors.Join(err, relay.close()); err != nil {
		return fmt.Errorf("fetching Postgres %s from %s: %w", fetchVersion, f.repository, err)
	}
	if missing := missingFrom(filepath.Join(extracted, "bin")); len(missing) > 0 {
		return fmt.Errorf("unpacking Postgres %s from %s: %v are missing: %w", fetchVersion, f.repository, missing, started)
	}
	return nil
}
