package arch_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// lockPage lists the advisory locks and what happens while another session holds one. Each role that may connect can take
// these locks.
const lockPage = "docs/security.md"

// lockFiles maps each file that takes an advisory lock to its locks. If the statement has the numbers as parameters,
// lockNumbers has the file with the numbers.
var lockFiles = map[string][]string{
	"pkg/postgres/migrate/session.go":       {"27696063967295745"},
	"sql/functions/inbox/inbox_notify.sql":  {"(1111837766, 8)", "(1111837766, 10)"},
	"sql/functions/limit/new_limit_row.sql": {}, // its number is a hash, see belfry.limit_key
	"sql/queries/engine/inbox/lock.sql":     {"(1111837766, 7)", "(1111837766, 10)"},
	"sql/queries/engine/inbox/mark.sql":     {"(1111837766, 9)"},
	"sql/queries/engine/inbox/sleep.sql":    {"(1111837766, 8)"},
}

// lockNumbers are the files that contain the numbers of locks.
var lockNumbers = []string{"pkg/postgres/migrate/session.go", "pkg/engine/inbox/leader.go", "sql/functions/inbox/inbox_notify.sql", "sql/queries/insight/doctor/locks.sql"}

var (
	takesLock = regexp.MustCompile(`advisory_(?:xact_)?lock`)
	lockRow   = regexp.MustCompile("(?m)^\\| `(\\d+|\\(\\d+, \\d+\\))` \\|")
	// The three forms of the numbers: a pair in SQL, a row in the query of belfry doctor, a Go constant.
	lockPair  = regexp.MustCompile(`advisory\w*\((\d+), (\d+)\)`)
	lockKnown = regexp.MustCompile(`(?m)^ *(?:WITH .*VALUES)?\s*\((\d+), (\d+), ([12]), '`)
	lockConst = regexp.MustCompile(`(?m)^\s*(\w+Class|\w+Lock|lockKey)\s+int(?:32|64)\s*= (0x[0-9a-f]+|\d+)`)
)

// locksIn returns the locks whose numbers a file contains.
func locksIn(text string) (locks []string) {
	pair := func(class, id string) string { return "(" + class + ", " + id + ")" }
	for _, m := range lockPair.FindAllStringSubmatch(text, -1) {
		locks = append(locks, pair(m[1], m[2]))
	}
	for _, m := range lockKnown.FindAllStringSubmatch(text, -1) {
		if m[3] == "1" { // one number of 64 bits
			high, _ := strconv.ParseInt(m[1], 10, 64)
			low, _ := strconv.ParseInt(m[2], 10, 64)
			locks = append(locks, strconv.FormatInt(high<<32|low, 10))
		} else {
			locks = append(locks, pair(m[1], m[2]))
		}
	}
	class := ""
	for _, m := range lockConst.FindAllStringSubmatch(text, -1) {
		number, _ := strconv.ParseInt(m[2], 0, 64)
		switch value := strconv.FormatInt(number, 10); {
		case strings.HasSuffix(m[1], "Class"):
			class = value
		case m[1] == "lockKey":
			locks = append(locks, value)
		default:
			locks = append(locks, pair(class, value))
		}
	}
	slices.Sort(locks)
	return slices.Compact(locks)
}

// lockBreaches complains about files (path to text) that take a lock and are not in takers. It complains about files in
// takers that take no lock. It also complains about locks that only the page or only the code has.
func lockBreaches(files map[string]string, takers map[string][]string, numbers []string, page string) (complaints []string) {
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if takesLock.MatchString(files[path]) && takers[path] == nil {
			complaints = append(complaints, path+" takes an advisory lock: add the file to lockFiles, and the lock to "+lockPage)
		}
	}
	taken := map[string]bool{}
	for _, path := range slices.Sorted(maps.Keys(takers)) {
		if !takesLock.MatchString(files[path]) {
			complaints = append(complaints, path+" takes no advisory lock")
		}
		for _, lock := range takers[path] {
			taken[lock] = true
		}
	}
	listed := map[string]bool{}
	for _, m := range lockRow.FindAllStringSubmatch(page, -1) {
		listed[m[1]] = true
		if !taken[m[1]] {
			complaints = append(complaints, fmt.Sprintf("%s lists the lock %s, which no file takes", lockPage, m[1]))
		}
	}
	for _, path := range numbers {
		for _, lock := range locksIn(files[path]) {
			taken[lock] = true
		}
	}
	for _, lock := range slices.Sorted(maps.Keys(taken)) {
		if !listed[lock] {
			complaints = append(complaints, fmt.Sprintf("%s does not list the lock %s", lockPage, lock))
		}
	}
	return complaints
}

func TestTheSecurityPageListsEachAdvisoryLock(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for _, dir := range []string{"sql/schema", "sql/functions", "sql/queries", "pkg", "cmd", "config"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, filepath.FromSlash(dir)), func(path string, entry fs.DirEntry, err error) error {
			if ext := filepath.Ext(path); err != nil || entry.IsDir() || ext != ".go" && ext != ".sql" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			name, _ := filepath.Rel(root, path)
			files[filepath.ToSlash(name)] = string(text)
			return err
		}))
	}
	page, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(lockPage)))
	require.NoError(t, err)
	holds(t, lockBreaches(files, lockFiles, lockNumbers, string(page)))
	all := locksIn(files["sql/queries/insight/doctor/locks.sql"])
	require.Len(t, all, 5)
	require.Equal(t, all, slices.Sorted(slices.Values(slices.Concat(locksIn(files["pkg/postgres/migrate/session.go"]), locksIn(files["pkg/engine/inbox/leader.go"])))),
		"belfry doctor must know each lock")
}
