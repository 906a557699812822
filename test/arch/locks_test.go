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

// lockPage lists the advisory locks and the cost of a held one. Each role that may connect can take them.
const lockPage = "docs/security.md"

// lockFiles are the files that take an advisory lock, with the locks. A file whose statement has the numbers as
// parameters is followed by the file with the numbers.
var lockFiles = map[string][]string{
	"pkg/postgres/migrate/session.go":      {"27696063967295745"},
	"sql/functions/inbox/inbox_notify.sql": {"(1111837766, 8)", "(1111837766, 10)"},
	"sql/queries/engine/inbox/lock.sql":    {"(1111837766, 7)", "(1111837766, 10)"},
	"sql/queries/engine/inbox/mark.sql":    {"(1111837766, 9)"},
	"sql/queries/engine/inbox/sleep.sql":   {"(1111837766, 8)"},
}

// lockNumbers are the files that have the numbers of locks.
var lockNumbers = []string{"pkg/postgres/migrate/session.go", "pkg/engine/inbox/leader.go", "sql/functions/inbox/inbox_notify.sql", "sql/queries/insight/doctor/locks.sql"}

var (
	takesLock = regexp.MustCompile(`advisory_(?:xact_)?lock`)
	lockRow   = regexp.MustCompile("(?m)^\\| `(\\d+|\\(\\d+, \\d+\\))` \\|")
	// How the numbers are written: a pair in SQL, a row of the doctor, a constant.
	lockPair  = regexp.MustCompile(`advisory\w*\((\d+), (\d+)\)`)
	lockKnown = regexp.MustCompile(`(?m)^ *(?:WITH .*VALUES)?\s*\((\d+), (\d+), ([12]), '`)
	lockConst = regexp.MustCompile(`(?m)^\s*(\w+Class|\w+Lock|lockKey)\s+int(?:32|64)\s*= (0x[0-9a-f]+|\d+)`)
)

// locksIn returns the locks whose numbers a file has.
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

// lockBreaches complains about files (path to text) that take a lock and are not in takers, about files of takers that take
// none, and about locks that are not on the page or only there.
func lockBreaches(files map[string]string, takers map[string][]string, numbers []string, page string) (complaints []string) {
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if takesLock.MatchString(files[path]) && takers[path] == nil {
			complaints = append(complaints, path+" takes an advisory lock: enter it here, and the lock in "+lockPage)
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
			complaints = append(complaints, fmt.Sprintf("%s lists the lock %s, which nothing takes", lockPage, m[1]))
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
		"the doctor looks for each lock")
}
