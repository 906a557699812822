package arch_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// maxLines is the limit for a Go file. The aim is 100 to 200 lines.
const maxLines = 400

// minDoc is the minimum length of a package doc in characters, and minDocSentences in sentences.
const (
	minDoc          = 80
	minDocSentences = 2
)

// sentenceEnd matches the end of a sentence in a package doc.
var sentenceEnd = regexp.MustCompile(`[.!?](\s|$)`)

// lengthBreaches reports files that are too long.
func lengthBreaches(files []source) []string {
	var complaints []string
	for _, file := range files {
		if file.lines > maxLines {
			complaints = append(complaints, fmt.Sprintf(
				"%s has %d lines, the limit is %d: split it by what its parts do", file.path, file.lines, maxLines))
		}
	}
	return complaints
}

// docBreaches reports packages without a sufficient package doc.
func docBreaches(files []source) []string {
	best := map[string]source{}
	for _, file := range files {
		// The doc of the package x_test does not count, unless the folder has only tests.
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
	case len(file.doc) < minDoc || len(sentenceEnd.FindAllString(file.doc, -1)) < minDocSentences:
		return fmt.Sprintf("its package doc is shorter than %d characters or than %d sentences", minDoc, minDocSentences)
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

func TestLongFilesAreFound(t *testing.T) {
	t.Parallel()
	full := "package x\n" + strings.Repeat("\n", maxLines-1)
	require.Empty(t, lengthBreaches([]source{sample(t, "pkg/x/x.go", full)}))
	require.Len(t, lengthBreaches([]source{sample(t, "pkg/x/x.go", full+"\n")}), 1)
	require.Len(t, lengthBreaches([]source{sample(t, "pkg/x/x_test.go", full+"\n")}), 1)
}

func TestMissingPackageDocsAreFound(t *testing.T) {
	t.Parallel()
	const good = "// Package x keeps the partitions of a queue separate.\n" +
		"// It promises order inside one partition and none between two.\npackage x\n"
	const none = "package x\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"a doc in one of two files", map[string]string{"pkg/x/doc.go": good, "pkg/x/a.go": none}, ""},
		{"no doc", map[string]string{"pkg/x/a.go": none}, "no package doc"},
		{"a doc on the tests only", map[string]string{"pkg/x/a.go": none, "pkg/x/a_test.go": good}, "no package doc"},
		{"a package of tests", map[string]string{"test/x/a_test.go": good, "test/x/b_test.go": none}, ""},
		{"one sentence", map[string]string{"pkg/x/a.go": "// Package x is " + strings.Repeat("very ", 20) + "short.\n" + none}, "sentences"},
		{"few words", map[string]string{"pkg/x/a.go": "// Package x is x. Really.\n" + none}, "characters"},
		{"another opening", map[string]string{"pkg/x/a.go": strings.Replace(good, "Package x", "This package", 1)}, "does not start"},
		{"a detached comment", map[string]string{"pkg/x/a.go": strings.Replace(good, "\npackage", "\n\npackage", 1)}, "no package doc"},
		{"a command", map[string]string{"cmd/x/a.go": strings.NewReplacer("Package x", "Command x", "package x", "package main").Replace(good)}, ""},
	} {
		var files []source
		for name, text := range c.files {
			files = append(files, sample(t, name, text))
		}
		complaints := docBreaches(files)
		if c.want == "" {
			require.Empty(t, complaints, c.name)
			continue
		}
		require.Len(t, complaints, 1, c.name)
		require.Contains(t, complaints[0], c.want, c.name)
	}
}
