package arch_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// migrationName is version, name and direction of a migration file.
var migrationName = regexp.MustCompile(`^(\d{6})_([a-z0-9]+(?:_[a-z0-9]+)*)\.(up|down)\.sql$`)

// migrationBreaches complains about migrations that are not a gapless sequence
// of pairs: golang-migrate takes any order and any gap, and an instance that is
// half way through an old sequence would never run what is slipped in below.
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
