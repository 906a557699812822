// Command baseline writes the baseline migration, sql/migrations/000001_baseline, from the files in sql/schema and
// sql/functions. Run `go run ./scripts/baseline` after each change of these files. A test fails if the migration is
// out of date.
//
// After the first release, the migration must not change. Then write each change twice: in sql/schema or
// sql/functions, and as a new migration.
package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/belfry-mq/belfry/test/schema"
)

const (
	upFile   = "migrations/000001_baseline.up.sql"
	downFile = "migrations/000001_baseline.down.sql"
	opening  = "-- Generated from sql/schema and sql/functions by go run ./scripts/baseline.\n\n"
)

// generate returns the texts of both migration files. The keys are the paths in sqlDir, the folder sql.
func generate(sqlDir fs.FS) (map[string]string, error) {
	up, err := schema.Create(sqlDir)
	if err != nil {
		return nil, err
	}
	down, err := schema.Drop(sqlDir)
	if err != nil {
		return nil, err
	}
	return map[string]string{upFile: opening + up, downFile: opening + down}, nil
}

func run() error {
	top, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return fmt.Errorf("finding the repository: %w", err)
	}
	dir := filepath.Join(strings.TrimSpace(string(top)), "sql")
	files, err := generate(os.DirFS(dir))
	if err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "baseline:", err)
		os.Exit(1)
	}
}
