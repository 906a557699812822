package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"text/tabwriter"
)

// way has the Go files and SQL files that take part in one request.
type way struct {
	verb string
	// lines has the number of executed lines of each Go file, without blank lines and comments.
	lines map[string]int
	// length has the number of lines of each Go file.
	length map[string]int
	sql    []string
}

func newWay(verb string, request, idle *sample) (way, error) {
	w := way{verb: verb, lines: map[string]int{}, length: map[string]int{}}
	blocks := map[string][]block{}
	for _, b := range takesPart(request.blocks, idle.blocks) {
		if !strings.HasPrefix(b.file, "scripts/") { // leaves out this command
			blocks[b.file] = append(blocks[b.file], b)
		}
	}
	for file, ran := range blocks {
		text, err := os.ReadFile(file)
		if err != nil {
			return way{}, fmt.Errorf("reading a file that ran: %w", err)
		}
		lines := strings.Split(string(text), "\n")
		w.length[file] = len(lines) - 1
		executed := map[int]bool{}
		for _, b := range ran {
			for at := b.first; at <= b.last; at++ {
				code := strings.TrimSpace(lines[at-1])
				if code != "" && !strings.HasPrefix(code, "//") {
					executed[at] = true
				}
			}
		}
		w.lines[file] = len(executed)
	}
	statements := map[string]bool{}
	for _, file := range takesPart(request.statements, idle.statements) {
		statements[file] = true
	}
	if err := addFunctions(statements); err != nil {
		return way{}, err
	}
	w.sql = slices.Sorted(maps.Keys(statements))
	return w, nil
}

// print writes the totals, then one line for each package, or for each file.
func (w way) print(out io.Writer, files bool) error {
	executed, total := 0, 0
	names := slices.SortedFunc(maps.Keys(w.lines), comparePaths)
	packages := map[string][]string{}
	for _, name := range names {
		executed, total = executed+w.lines[name], total+w.length[name]
		packages[path.Dir(name)] = append(packages[path.Dir(name)], path.Base(name))
	}
	printf(out, "%s: %d Go files (%d lines, of which %d ran) and %d SQL files\n", w.verb, len(names), total, executed, len(w.sql))
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if files {
		for _, name := range names {
			printf(table, "  %s\t%d of %d lines\n", name, w.lines[name], w.length[name])
		}
		for _, name := range w.sql {
			printf(table, "  %s\n", name)
		}
	} else {
		for _, dir := range slices.Sorted(maps.Keys(packages)) {
			ran := 0
			for _, name := range packages[dir] {
				ran += w.lines[dir+"/"+name]
			}
			printf(table, "  %s\t%d files, %d lines ran\n", dir, len(packages[dir]), ran)
		}
	}
	printf(table, "\n")
	return table.Flush()
}

// comparePaths compares by folder, then by file name.
func comparePaths(a, b string) int {
	if c := strings.Compare(path.Dir(a), path.Dir(b)); c != 0 {
		return c
	}
	return strings.Compare(a, b)
}
