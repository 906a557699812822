package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/belfry-mq/belfry/sql"
)

// queryFiles maps the text of each statement to its file. The text has no white space.
var queryFiles = func() map[string]string {
	files := map[string]string{}
	for _, name := range sql.Names() {
		files[withoutBlanks(sql.Query(name))] = "sql/queries/" + name + ".sql"
	}
	return files
}()

func withoutBlanks(text string) string { return strings.Join(strings.Fields(text), "") }

// sentStatements reads a log of Postgres. It counts, by file, the statements of all roles except otherRole.
func sentStatements(log io.Reader) map[string]int {
	sent := map[string]int{}
	raw, _ := io.ReadAll(log) // log is in memory, so it can always be read
	// Postgres writes a tab at the start of each further line of a statement.
	for line := range strings.SplitSeq(strings.ReplaceAll(string(raw), "\n\t", " \t"), "\n") {
		role, rest, _ := strings.Cut(line, "|")
		_, text, found := strings.Cut(rest, ": ")
		if !found || role == otherRole || role == "" {
			continue
		}
		for {
			if file, ok := queryFiles[withoutBlanks(text)]; ok {
				sent[file]++
			}
			// The text follows the prefix "LOG:  execute NAME: ".
			if _, text, found = strings.Cut(text, ": "); !found {
				break
			}
		}
	}
	return sent
}

var (
	functionName = regexp.MustCompile(`belfry\.([a-z_]+)\s*\(`)
	comment      = regexp.MustCompile(`--[^\n]*`)
)

// addFunctions adds the files of all functions that the texts of files call, directly or indirectly. It reads the
// files below the current folder.
func addFunctions(files map[string]bool) error {
	paths, err := filepath.Glob("sql/functions/*/*.sql")
	if err != nil {
		return err
	}
	homes := map[string]string{}
	for _, path := range paths {
		homes[strings.TrimSuffix(filepath.Base(path), ".sql")] = path
	}
	var open []string
	for file := range files {
		open = append(open, file)
	}
	for len(open) > 0 {
		file := open[0]
		open = open[1:]
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading a statement: %w", err)
		}
		for _, name := range functionName.FindAllSubmatch(comment.ReplaceAll(text, nil), -1) {
			if home, ok := homes[string(name[1])]; ok && !files[home] {
				files[home], open = true, append(open, home)
			}
		}
	}
	return nil
}
