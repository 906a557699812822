package arch_test

import (
	"fmt"
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

// migrationName is version, name and direction of a migration file.
var migrationName = regexp.MustCompile(`^(\d{6})_([a-z0-9]+(?:_[a-z0-9]+)*)\.(up|down)\.sql$`)

// migrationBreaches complains about migrations that are not a gapless sequence of
// pairs. golang-migrate accepts any order and any gap. A database at a later
// version would never run a migration that is inserted below.
func migrationBreaches(names []string) []string {
	var complaints []string
	byVersion := map[int]map[string]string{} // version, direction, name
	for _, file := range names {
		parts := migrationName.FindStringSubmatch(file)
		if parts == nil {
			complaints = append(complaints, fmt.Sprintf("%s: call it NNNNNN_some_name.up.sql or .down.sql", file))
			continue
		}
		version, err := strconv.Atoi(parts[1])
		if err != nil {
			complaints = append(complaints, fmt.Sprintf("%s: %v", file, err))
			continue
		}
		if byVersion[version] == nil {
			byVersion[version] = map[string]string{}
		}
		if other, twice := byVersion[version][parts[3]]; twice {
			complaints = append(complaints, fmt.Sprintf("version %06d has two %s files: %s and %s", version, parts[3], other, parts[2]))
		}
		byVersion[version][parts[3]] = parts[2]
	}
	versions := make([]int, 0, len(byVersion))
	for version := range byVersion {
		versions = append(versions, version)
	}
	slices.Sort(versions)
	for i, version := range versions {
		if version != i+1 {
			complaints = append(complaints, fmt.Sprintf("version %06d stands where %06d is due: versions are consecutive from 000001", version, i+1))
			break
		}
	}
	for _, version := range versions {
		up, hasUp := byVersion[version]["up"]
		down, hasDown := byVersion[version]["down"]
		switch {
		case !hasUp:
			complaints = append(complaints, fmt.Sprintf("version %06d has no up file", version))
		case !hasDown:
			complaints = append(complaints, fmt.Sprintf("version %06d has no down file", version))
		case up != down:
			complaints = append(complaints, fmt.Sprintf("version %06d is called %s going up and %s going down", version, up, down))
		}
	}
	return complaints
}

func TestMigrationsAreASequenceOfPairs(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir(filepath.Join(root, "sql", "migrations"))
	require.NoError(t, err)
	require.NotEmpty(t, entries)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	holds(t, migrationBreaches(names))
}

func TestMigrationBreachesAreFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		names []string
		want  string
	}{
		{[]string{"000001_init.up.sql", "000001_init.down.sql", "000002_more_of_it.down.sql", "000002_more_of_it.up.sql"}, ""},
		{[]string{"000001_init.up.sql"}, "no down file"},
		{[]string{"000001_init.down.sql"}, "no up file"},
		{[]string{"000002_init.up.sql", "000002_init.down.sql"}, "000002 stands where 000001"},
		{[]string{"000000_init.up.sql", "000000_init.down.sql"}, "000000 stands where 000001"},
		{[]string{"000001_a.up.sql", "000001_a.down.sql", "000003_b.up.sql", "000003_b.down.sql"}, "000003 stands where 000002"},
		{[]string{"000001_init.up.sql", "000001_start.down.sql"}, "called init going up and start going down"},
		{[]string{"000001_a.up.sql", "000001_b.up.sql", "000001_b.down.sql"}, "two up files"},
		{[]string{"000001_a.up.sql", "000001_a.down.sql", "1_b.up.sql"}, "call it NNNNNN"},
		{[]string{"000001_a.up.sql", "000001_a.down.sql", "README.md"}, "call it NNNNNN"},
	} {
		complaints := migrationBreaches(c.names)
		if c.want == "" {
			require.Empty(t, complaints)
			continue
		}
		require.Len(t, complaints, 1, "%v", c.names)
		require.Contains(t, complaints[0], c.want)
	}
}

// patchers rewrite the text of a function that is in the database. What such a
// migration makes depends on what it finds.
var patchers = regexp.MustCompile(`(?i)pg_temp\s*\.\s*rewrite|pg_get_functiondef|replace\s*\([^;]*\bprosrc\b`)

// patchBreaches complains about SQL that patches the text of functions.
func patchBreaches(name, text string) []string {
	if found := patchers.FindString(text); found != "" {
		return []string{fmt.Sprintf("%s: %q patches a function: write its whole new text with CREATE OR REPLACE", name, found)}
	}
	return nil
}

func TestNoSQLPatchesAFunction(t *testing.T) {
	t.Parallel()
	count := 0
	err := filepath.WalkDir(filepath.Join(root, "sql"), func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".sql" {
			return err
		}
		text, err := os.ReadFile(path)
		count++
		holds(t, patchBreaches(path, string(text)))
		return err
	})
	require.NoError(t, err)
	require.Greater(t, count, 100)
}

func TestPatchesAreFound(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"SELECT pg_temp.rewrite('belfry.pop()', 'a', 'b')",
		"SELECT pg_get_functiondef('belfry.pop()'::regprocedure)",
		"SELECT regexp_replace(p.prosrc, 'a', 'b') FROM pg_proc p",
		"SELECT replace(prosrc, 'a', 'b') FROM pg_proc",
	} {
		require.Len(t, patchBreaches("a.sql", text), 1, text)
	}
	require.Empty(t, patchBreaches("a.sql", "SELECT substring(f.prosrc FROM 'a'), replace(f.name, 'a', 'b') FROM pg_proc f"))
}

// maxSourceLines bounds sql/schema and sql/functions together.
const maxSourceLines = 4040

var (
	createsFunction = regexp.MustCompile(`(?m)^CREATE FUNCTION belfry\.(\w+)\s*\(`)
	createsRelation = regexp.MustCompile(`(?m)^CREATE (?:TABLE|VIEW) belfry\.(\w+)`)
)

// sourceBreaches complains about files of sql/schema and sql/functions (path to
// text) that make something else than what they are called after, about
// functions in two files and about files without an opening comment.
func sourceBreaches(files map[string]string) []string {
	var complaints []string
	lines, homes := 0, map[string]string{}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		text, name := files[path], strings.TrimSuffix(filepath.Base(path), ".sql")
		lines += strings.Count(text, "\n")
		if opening, _, _ := strings.Cut(text, "\n"); !strings.HasPrefix(opening, "-- ") || len(opening) < minOpening {
			complaints = append(complaints, path+": it does not open with a comment that says what it makes")
		}
		creates, isFunction := createsRelation, strings.HasPrefix(path, "functions/")
		if isFunction {
			creates = createsFunction
		}
		for _, made := range creates.FindAllStringSubmatch(text, -1) {
			if made[1] != name {
				complaints = append(complaints, fmt.Sprintf("%s makes belfry.%s: a file is called after what it makes", path, made[1]))
			}
			if other := homes[made[1]]; isFunction && other != "" && other != path {
				complaints = append(complaints, fmt.Sprintf("belfry.%s is made by %s and by %s", made[1], other, path))
			}
			homes[made[1]] = path
		}
		if isFunction && homes[name] != path {
			complaints = append(complaints, path+" makes no function of its name")
		}
	}
	if lines > maxSourceLines {
		complaints = append(complaints, fmt.Sprintf("sql/schema and sql/functions have %d lines, at most %d are allowed", lines, maxSourceLines))
	}
	return complaints
}

func TestEachFunctionAndTableHasAFileOfItsName(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for _, pattern := range []string{"schema/*", "functions/*/*"} {
		paths, err := filepath.Glob(filepath.Join(root, "sql", pattern))
		require.NoError(t, err)
		require.NotEmpty(t, paths)
		for _, path := range paths {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			name, err := filepath.Rel(filepath.Join(root, "sql"), path)
			require.NoError(t, err)
			files[filepath.ToSlash(name)] = string(text)
		}
	}
	holds(t, sourceBreaches(files))
}

func TestSourceBreachesAreFound(t *testing.T) {
	t.Parallel()
	const opening = "-- Returns what the test needs.\n"
	good := opening + "CREATE FUNCTION belfry.a() RETURNS int\n"
	for _, c := range []struct {
		files map[string]string
		want  string
	}{
		{map[string]string{"functions/x/a.sql": good + "\nCREATE FUNCTION belfry.a(n int)"}, ""},
		{map[string]string{"schema/t.sql": opening + "CREATE TABLE belfry.t (\n"}, ""},
		{map[string]string{"schema/roles.sql": opening + "DO $$"}, ""},
		{map[string]string{"functions/x/a.sql": "CREATE FUNCTION belfry.a()"}, "open with a comment"},
		{map[string]string{"functions/x/a.sql": opening}, "no function of its name"},
		{map[string]string{"functions/x/a.sql": good + "CREATE FUNCTION belfry.b()"}, "makes belfry.b"},
		{map[string]string{"functions/x/a.sql": good, "functions/y/a.sql": good}, "is made by functions/x/a.sql and by"},
		{map[string]string{"schema/t.sql": opening + "CREATE TABLE belfry.u ("}, "makes belfry.u"},
		{map[string]string{"functions/x/a.sql": good + strings.Repeat("\n", maxSourceLines)}, "lines, at most"},
	} {
		complaints := sourceBreaches(c.files)
		if c.want == "" {
			require.Empty(t, complaints)
			continue
		}
		require.Len(t, complaints, 1, "%v", c.files)
		require.Contains(t, complaints[0], c.want)
	}
}
