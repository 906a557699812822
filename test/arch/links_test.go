package arch_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mapOfDocs is the page that leads to all other pages in docs.
const mapOfDocs = "docs/README.md"

var (
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading      = regexp.MustCompile(`(?m)^#+ (.+)$`)
	codeBlock    = regexp.MustCompile("(?ms)^```.*?^```$")
	codeSpan     = regexp.MustCompile("`[^`]*`")
	notInAnchor  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchorsOf returns the anchors of the headings of a page, as GitHub makes them.
func anchorsOf(text string) (anchors []string) {
	for _, match := range heading.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
		name := strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(markdownLink.ReplaceAllString(match[1], "")), ""), " ", "-")
		anchors = append(anchors, name)
	}
	return anchors
}

// linksOf returns the links of a page to files and anchors of the repository.
func linksOf(text string) (links []string) {
	text = codeSpan.ReplaceAllString(codeBlock.ReplaceAllString(text, ""), "")
	for _, match := range markdownLink.FindAllStringSubmatch(text, -1) {
		if !strings.Contains(match[1], "://") && !strings.HasPrefix(match[1], "mailto:") {
			links = append(links, match[1])
		}
	}
	return links
}

// linkBreaches reports links to files or headings that do not exist, and pages in docs to which the map does not lead. pages
// has the texts of the pages by their paths. exists reports whether another file exists.
func linkBreaches(pages map[string]string, exists func(path string) bool) (complaints []string) {
	mapped := map[string]bool{mapOfDocs: true}
	for page, text := range pages {
		for _, link := range linksOf(text) {
			file, anchor, _ := strings.Cut(link, "#")
			target := page
			if file != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(page), file))
			}
			if page == mapOfDocs {
				mapped[target] = true
			}
			to, isPage := pages[target]
			switch {
			case !isPage && !exists(target):
				complaints = append(complaints, fmt.Sprintf("%s: the link %s leads to no file", page, link))
			case isPage && anchor != "" && !slices.Contains(anchorsOf(to), anchor):
				complaints = append(complaints, fmt.Sprintf("%s: the link %s leads to no heading", page, link))
			}
		}
	}
	for page := range pages {
		// docs/http-reference.md leads to the pages in docs/http.
		if strings.HasPrefix(page, "docs/") && !strings.HasPrefix(page, "docs/http/") && !mapped[page] {
			complaints = append(complaints, fmt.Sprintf("%s has no link to %s", mapOfDocs, page))
		}
	}
	slices.Sort(complaints)
	return complaints
}

func TestLinksOfThePagesLeadSomewhere(t *testing.T) {
	t.Parallel()
	pages := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && name != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || entry.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if filepath.Ext(name) != ".md" {
			return nil
		}
		text, err := os.ReadFile(name) //nolint:gosec // a page of the repository
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, name)
		pages[filepath.ToSlash(relative)] = string(text)
		return err
	}))
	holds(t, linkBreaches(pages, func(path string) bool {
		_, err := os.Stat(filepath.Join(root, path))
		return err == nil
	}))
}

func TestLinkBreaches(t *testing.T) {
	t.Parallel()
	pages := map[string]string{
		"README.md":      "# A\n[good](docs/a.md#two-words) [file](Makefile) [bad](docs/no.md) [web](https://example.com)",
		"docs/README.md": "[a](a.md)",
		"docs/a.md":      "## Two `words`\n[up](../README.md#a) [bad](#three)\n```\n[code](nothing)\n```\n",
		"docs/b.md":      "",
	}
	require.Equal(t, []string{
		"README.md: the link docs/no.md leads to no file", "docs/README.md has no link to docs/b.md", "docs/a.md: the link #three leads to no heading",
	}, linkBreaches(pages, func(path string) bool { return path == "Makefile" }))
}
