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

// migrationName matches the file name of a migration: version, name and direction.
var migrationName = regexp.MustCompile(`^(\d{6})_([a-z0-9]+(?:_[a-z0-9]+)*)\.(up|down)\.sql$`)

// migrationBreaches complains unless the migrations are pairs with consecutive versions. golang-migrate accepts any order
// and any gap. A database at a later version would never run a migration that is inserted before that version.
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
			complaints = append(complaints, fmt.Sprintf("version %06d was found instead of %06d: versions are consecutive from 000001", version, i+1))
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

// patchers matches SQL that rewrites the text of a function in the database. The result of such a migration depends on the
// function that it finds.
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

// maxSourceLines limits the lines of sql/schema and sql/functions together.
const maxSourceLines = 6383

var (
	createsFunction = regexp.MustCompile(`(?m)^CREATE FUNCTION belfry\.(\w+)\s*\(`)
	createsRelation = regexp.MustCompile(`(?m)^CREATE (?:TABLE|VIEW) belfry\.(\w+)`)
)

// sourceBreaches complains about files of sql/schema and sql/functions (path to text). A file must open with a comment and
// must make only the function or table of its name. No two files may make the same function.
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
