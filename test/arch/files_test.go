package arch_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// maxLines is the limit for a Go file. Most files should have 100 to 200 lines.
const maxLines = 400

// lengthBreaches reports files that are too long.
func lengthBreaches(files []source) []string {
	var complaints []string
	for _, file := range files {
		if file.lines > maxLines {
			complaints = append(complaints, fmt.Sprintf(
				"%s has %d lines, the limit is %d: split it into files with one purpose each", file.path, file.lines, maxLines))
		}
	}
	return complaints
}

// docBreaches reports packages without a package doc.
func docBreaches(files []source) []string {
	best := map[string]source{}
	for _, file := range files {
		// The doc of package x_test counts only if the folder has no other package.
		current, seen := best[file.dir]
		if !seen || current.test && !file.test || current.test == file.test && len(file.doc) > len(current.doc) {
			best[file.dir] = file
		}
	}
	var complaints []string
	for dir, file := range best {
		if reason := docBreach(file); reason != "" {
			complaints = append(complaints, fmt.Sprintf("%s: %s: say what the package is, what it promises, who may import it", dir, reason))
		}
	}
	slices.Sort(complaints)
	return complaints
}

func docBreach(file source) string {
	opening := "Package " + file.pkg + " "
	if file.pkg == "main" {
		opening = "Command "
	}
	switch {
	case file.doc == "":
		return "it has no package doc"
	case !strings.HasPrefix(file.doc, opening):
		return fmt.Sprintf("its package doc does not start with %q", opening)
	}
	return ""
}

func TestNoFileIsTooLong(t *testing.T) {
	t.Parallel()
	holds(t, lengthBreaches(repository(t)))
}

func TestEveryPackageHasADoc(t *testing.T) {
	t.Parallel()
	holds(t, docBreaches(repository(t)))
}
