package main

import (
	"path"
	"regexp"
	"strings"
)

const (
	indexFile = "docs/http-reference.md"
	folder    = "docs/http"
	generated = "<!-- Generated from the YAML files of pkg/httpapi/openapi by go generate ./pkg/httpapi/openapi. Do not edit. -->\n\n"
)

var (
	headingLine  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	internalLink = regexp.MustCompile(`\]\(#([^)]*)\)`)
)

// split returns the files of the reference. The keys are paths in the repository. The list of endpoints and the
// errors stay in docs/http-reference.md. Each other section becomes a page of the folder docs/http, and its headings
// move one level up. A link to a heading in another file gets the name of that file.
func split(text string) map[string][]byte {
	parts := strings.Split(text, "\n## ")
	pages := map[string]string{indexFile: parts[0]}
	for _, part := range parts[1:] {
		subject, rest, _ := strings.Cut(part, "\n")
		if subject == "Errors" {
			pages[indexFile] += "\n## " + part
			continue
		}
		pages[path.Join(folder, anchor(subject)+".md")] = generated + "# " + subject + " over HTTP\n" + strings.ReplaceAll(rest, "\n### ", "\n## ")
	}
	home := map[string]string{}
	for file, page := range pages {
		for _, heading := range headingLine.FindAllStringSubmatch(page, -1) {
			home[anchor(heading[1])] = file
		}
	}
	files := map[string][]byte{}
	for file, page := range pages {
		linked := internalLink.ReplaceAllStringFunc(page, func(link string) string {
			target := internalLink.FindStringSubmatch(link)[1]
			return "](" + relative(file, home[target]) + "#" + target + ")"
		})
		files[file] = []byte(strings.TrimRight(linked, "\n") + "\n")
	}
	return files
}

// relative returns the path in a link from one file of the reference to another. For a link within a file it returns
// "".
func relative(from, to string) string {
	switch {
	case from == to:
		return ""
	case from == indexFile:
		return strings.TrimPrefix(to, "docs/")
	case to == indexFile:
		return "../" + path.Base(to)
	default:
		return path.Base(to)
	}
}
