package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/devdb"
)

// copyTemplate copies a cluster in which nothing has happened to dir, because initdb needs more processor time than many
// packages. All test processes of one go test share the template. It is removed like the folder of a killed test, when
// go test has ended.
func copyTemplate(ctx context.Context, dir string) error {
	binaries, err := devdb.FindBinaries(ctx, zap.NewNop())
	if err != nil {
		return err
	}
	version := strings.Trim(strings.ReplaceAll(binaries, string(filepath.Separator), "_"), "_")
	template := filepath.Join(os.TempDir(), fmt.Sprintf("%s%d-template-%s", dirPrefix, os.Getppid(), version))
	if _, err := os.Stat(template); errors.Is(err, fs.ErrNotExist) {
		if err := makeTemplate(ctx, template); err != nil {
			return fmt.Errorf("making a template for clusters: %w", err)
		}
	}
	out, err := exec.CommandContext(ctx, "cp", "-a", filepath.Join(template, clusterName), dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("copying the template of clusters: %w: %s", err, out)
	}
	return nil
}

// makeTemplate makes a template elsewhere and moves it to its place, unless another process was faster.
func makeTemplate(ctx context.Context, template string) error {
	parent, err := newParent()
	if err != nil {
		return err
	}
	cluster, err := devdb.Start(ctx, devdb.Config{Dir: filepath.Join(parent, clusterName), Settings: settings()})
	if err == nil {
		err = cluster.Stop(ctx)
	}
	if err == nil {
		err = os.Rename(parent, template)
	}
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	return errors.Join(err, os.RemoveAll(parent))
}
