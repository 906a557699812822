package pgtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres/devdb"
	"github.com/belfry-mq/belfry/sql"
)

// migratedName is the database that pkg/postgres/migrate has migrated.
const migratedName = "belfry_template_migrated"

// template is a kind of cluster. Tests start copies of a template, because initdb and the migrations take more processor
// time than the tests of many packages. All test processes of one `go test` share the files of a template. When `go test`
// has ended, the next run removes these files, as it removes the folder of a killed test.
type template string

const (
	unused   template = "unused"
	migrated template = "migrated" // contains the database migratedName
)

// copy copies the files of the template to dir.
func (of template) copy(ctx context.Context, dir string) error {
	binaries, err := devdb.FindBinaries(ctx, zap.NewNop())
	if err != nil {
		return err
	}
	contents, err := digest(sql.Migrations)
	if err != nil {
		return fmt.Errorf("reading the migrations: %w", err)
	}
	version := strings.Trim(strings.ReplaceAll(binaries, string(filepath.Separator), "_"), "_")
	folder := filepath.Join(home(), fmt.Sprintf("%s%d-%s-%s-%s", dirPrefix, os.Getppid(), of, version, contents))
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		if err := of.make(ctx, folder); err != nil {
			return fmt.Errorf("making a template for clusters: %w", err)
		}
	}
	out, err := exec.CommandContext(ctx, "cp", "-a", filepath.Join(folder, clusterName), dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("copying the template of clusters: %w: %s", err, out)
	}
	return nil
}

// digest returns a short hash of all files of a folder.
func digest(files fs.FS) (string, error) {
	hash := sha256.New()
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, path)
		_, _ = fmt.Fprintf(hash, "%s %d %s", path, len(content), content) // writing to a hash cannot fail
		return err
	})
	return hex.EncodeToString(hash.Sum(nil)[:4]), err
}

// make creates the template in a temporary folder and renames that folder. If another process has created the template
// meanwhile, make removes its own.
func (of template) make(ctx context.Context, folder string) error {
	parent, err := newParent()
	if err != nil {
		return err
	}
	cluster, err := devdb.Start(ctx, devdb.Config{Dir: filepath.Join(parent, clusterName), Settings: settings()})
	if err == nil {
		if of == migrated {
			err = migrateTemplate(ctx, cluster)
		}
		err = errors.Join(err, cluster.Stop(ctx))
	}
	if err == nil {
		err = os.Rename(parent, folder)
	}
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	return errors.Join(err, os.RemoveAll(parent))
}

// migrateTemplate creates the migrated database. It forbids connections to it, so that no session blocks a copy.
func migrateTemplate(ctx context.Context, cluster *devdb.Cluster) error {
	base, err := url.Parse(cluster.URL("postgres"))
	if err != nil {
		return err
	}
	s := &server{base: base}
	if s.admin, err = pgx.Connect(ctx, base.String()); err != nil {
		return err
	}
	return errors.Join(s.makeTemplateLocked(ctx, migratedName), s.admin.Close(ctx))
}
