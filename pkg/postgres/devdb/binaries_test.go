package devdb

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// install creates small programs in a new folder below root.
func install(t *testing.T, root, name string, files ...string) string {
	t.Helper()
	dir := filepath.Join(root, name)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for _, file := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte("#!/bin/sh\nexit 1\n"), 0o755))
	}
	return dir
}

func TestBinariesAreFoundInOrder(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	variable := install(t, root, "variable", programs...)
	onPath := install(t, root, "on-path", programs...)
	client := install(t, root, "client-only", "pg_ctl", "psql")
	fromConfig := install(t, root, "from-config", programs...)
	config := install(t, root, "config")
	script := "#!/bin/sh\n[ \"$1\" = --bindir ] && echo " + fromConfig + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(config, "pg_config"), []byte(script), 0o755))
	brokenConfig := install(t, root, "broken-config", "pg_config")
	for _, version := range []string{"9.6", "10", "16", "9.5"} {
		install(t, root, "lib/"+version+"/bin", programs...)
	}
	install(t, root, "lib/17/bin", "initdb") // incomplete
	newest := filepath.Join(root, "lib/16/bin")
	usual := []string{filepath.Join(root, "none-*"), filepath.Join(root, "lib/*/bin")}

	for name, test := range map[string]struct {
		variable, path string
		patterns       []string
		want           string
	}{
		"variable":            {variable, onPath, usual, variable},
		"path":                {"", client + ":" + config + ":" + onPath, usual, onPath},
		"pg_config":           {"", client + ":" + config, usual, fromConfig},
		"install folder":      {"", client, usual, newest},
		"broken pg_config":    {"", brokenConfig, usual, newest},
		"relative path entry": {"", ".:bin", usual, newest},
		"fetched":             {"", client, nil, "/fetched"},
	} {
		f := finder{
			env: func(key string) string {
				return map[string]string{"PATH": test.path, binDirVariable: test.variable}[key]
			},
			patterns: test.patterns,
			fetch:    func(context.Context) (string, error) { return "/fetched", nil },
		}
		got, err := f.find(t.Context())
		require.NoError(t, err, name)
		require.Equal(t, test.want, got, name)
	}
}

func TestAChosenFolderWithoutProgramsIsAnError(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	partial := install(t, root, "partial", "postgres")
	require.NoError(t, os.WriteFile(filepath.Join(partial, "initdb"), nil, 0o644)) // not executable
	f := finder{
		env:      func(key string) string { return map[string]string{binDirVariable: partial}[key] },
		patterns: []string{install(t, root, "good", programs...)},
	}
	_, err := f.find(t.Context())
	require.ErrorContains(t, err, "BELFRY_PG_BIN is "+partial+", which lacks initdb, pg_ctl")
	partial = filepath.Join(root, "nowhere")
	_, err = f.find(t.Context())
	require.ErrorContains(t, err, "nowhere, which lacks postgres, initdb, pg_ctl")
}

func TestTheErrorWithoutPostgresHasAdvice(t *testing.T) {
	t.Parallel()
	cause := errors.New("no such host")
	f := finder{env: func(string) string { return "" }, fetch: func(context.Context) (string, error) { return "", cause }}
	_, err := f.find(t.Context())
	require.ErrorIs(t, err, cause)
	for _, word := range []string{"install Postgres", "BELFRY_PG_BIN", "belfry serve", "database.url"} {
		require.ErrorContains(t, err, word)
	}
}

func TestThisMachineHasPostgres(t *testing.T) {
	t.Parallel()
	dir, err := FindBinaries(t.Context(), zap.NewNop())
	require.NoError(t, err)
	require.Empty(t, missingPrograms(dir))
}
