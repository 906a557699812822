//go:build installed && !release

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// block is a code block of a page, as the page shows it.
type block struct{ page, language, text string }

func (b block) String() string {
	first, _, _ := strings.Cut(b.text, "\n")
	return fmt.Sprintf("%s: the %s block that begins with %q", b.page, b.language, first)
}

// treatment says how the test runs one block. A block without a treatment runs to its end and must succeed.
type treatment struct {
	page, part string // the block of the page that contains this part; without a part: all other blocks of the page
	want       string // a part of the output; the test replaces each sequence of spaces by one space
	// before is a line of shell code that runs first, because the section assumes its effect.
	before string
	// until is set for a block that runs until it is stopped. It is the output that shows that the block works. Then the
	// test stops the block. A server runs until the end of the page.
	until string
	// stays is set for a program that runs until the end of the page. Later outputs may come from it.
	stays bool
	// notRun is the reason why no test runs the block.
	notRun string
}

// runner runs the blocks of one page in their order, in one folder, with one server and one database.
type runner struct {
	*kitchen
	root string // the repository
	addr string // of the server that the blocks use
	n    int    // the number of blocks that have run
	// last is the output of the block before. program is the output of a program that stays.
	last    string
	program *output
	shown   int // the part of the output of the program that the page has shown
	// stops has functions that end the blocks that still run.
	stops []func()
}

// otherPages have blocks that other tests run.
var otherPages = map[string]string{
	"docs/cli.md":     "TestCommandsOfTheDocumentation",
	"docs/recipes.md": "TestRecipes",
}

// blocksOfPages returns the code blocks of README.md and of the pages in docs. A block of the language text shows the output
// of the block before. It does not return the blocks without a language, which show syntax.
func blocksOfPages(t *testing.T, root string) (found []block) {
	t.Helper()
	names := []string{"README.md"}
	for _, pattern := range []string{"docs/*.md", "docs/coming-from/*.md"} {
		some, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		for _, name := range some {
			relative, err := filepath.Rel(root, name)
			require.NoError(t, err)
			names = append(names, relative)
		}
	}
	for _, name := range names {
		if otherPages[name] != "" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name)) //nolint:gosec // a page of the repository
		require.NoError(t, err)
		for _, match := range fence.FindAllStringSubmatch(string(text), -1) {
			if match[1] != "" && match[1] != "mermaid" {
				found = append(found, block{name, match[1], match[2]})
			}
		}
	}
	return found
}

// treatmentOf returns the treatment of a block, and counts its use.
func treatmentOf(b block, uses []int) (how treatment) {
	of := -1
	for i, one := range treatments {
		if one.page == b.page && strings.Contains(b.text, one.part) && (of < 0 || one.part != "") {
			of = i
		}
	}
	if of >= 0 {
		how = treatments[of]
		uses[of]++
	}
	return how
}

// unused returns the treatments that are for no block, or for more than one although they name a part.
func unused(uses []int) (found []string) {
	for i, n := range uses {
		if n == 0 || n > 1 && treatments[i].part != "" {
			found = append(found, fmt.Sprintf("%s: %q is for %d blocks", treatments[i].page, treatments[i].part, n))
		}
	}
	return found
}

// Each code block of README.md and of the pages in docs runs as the page shows it, or has a reason in treatments.
func TestPages(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	uses := make([]int, len(treatments))
	var names []string
	ofPage := map[string][]func(r *runner){}
	for _, b := range blocksOfPages(t, root) {
		how := treatmentOf(b, uses)
		if how.notRun != "" {
			continue
		}
		if ofPage[b.page] == nil {
			names = append(names, b.page)
		}
		ofPage[b.page] = append(ofPage[b.page], func(r *runner) { r.do(b, how) })
	}
	require.Empty(t, unused(uses), "remove these entries of treatments, or correct them")
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRunner(t, root)
			defer r.end()
			for _, run := range ofPage[name] {
				run(r)
			}
			t.Logf("%d blocks", r.n)
		})
	}
}

func newRunner(t *testing.T, root string) *runner {
	t.Helper()
	k := newKitchen(t)
	r := &runner{kitchen: k, root: root}
	// A request with an error must end a block, so curl fails on it.
	curl, err := exec.LookPath("curl")
	require.NoError(t, err)
	bin := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "curl"), []byte("#!/bin/sh\nexec "+curl+" --fail-with-body \"$@\"\n"), 0o700)) //nolint:gosec // a program
	k.env = append(k.env, "PATH="+bin+":"+valueOf(k.env, "PATH"), "DATABASE_URL="+valueOf(k.env, "BELFRY_DATABASE_URL"), "PYTHONUNBUFFERED=1")
	// The shell has its own HOME, and go must find its caches.
	caches, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE", "GOMODCACHE").Output()
	require.NoError(t, err)
	lines := strings.Split(string(caches), "\n")
	k.env = append(k.env, "GOCACHE="+lines[0], "GOMODCACHE="+lines[1])
	r.addr = strings.TrimPrefix(valueOf(k.env, "BELFRY_SERVER"), "http://")
	return r
}

// end ends the blocks that still run, and the server.
func (r *runner) end() {
	for _, stop := range r.stops {
		stop()
	}
	r.stop()
}

// valueOf returns the value of a variable. The last one counts.
func valueOf(env []string, name string) (value string) {
	for _, entry := range env {
		if rest, found := strings.CutPrefix(entry, name+"="); found {
			value = rest
		}
	}
	return value
}

// do runs a block.
func (r *runner) do(b block, how treatment) {
	r.t.Helper()
	r.n++
	if b.language == "text" {
		r.prints(b)
		return
	}
	if how.before != "" {
		r.run(how.before)
	}
	script := r.script(b)
	if how.until == "" {
		r.last = r.run(script)
		require.Contains(r.t, r.last, how.want, "%s", b)
		return
	}
	r.background(script, how)
}

// prints requires that the block before, or the program that stays, prints what a page shows. In the text of the page, …
// is for any text.
func (r *runner) prints(b block) {
	r.t.Helper()
	words := strings.Join(strings.Fields(b.text), " ")
	want := regexp.MustCompile(strings.ReplaceAll(regexp.QuoteMeta(words), "…", ".*"))
	if want.MatchString(r.last) {
		return
	}
	require.NotNil(r.t, r.program, "%s: the output is %s", b, r.last)
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	for _, line := range strings.Split(strings.TrimSpace(b.text), "\n") {
		r.shown += r.program.awaitAfter(ctx, r.t, r.shown, line)
	}
}

// script returns the shell code that runs a block.
func (r *runner) script(b block) string {
	r.t.Helper()
	name, port, err := net.SplitHostPort(r.addr)
	require.NoError(r.t, err)
	text := strings.NewReplacer("localhost:6632", r.addr, `"localhost", 6632`, fmt.Sprintf("%q, %s", name, port), "'"+shopURL+"'", "\"$DATABASE_URL\"",
		" --pg-port 5439", "", "'postgres://postgres@127.0.0.1:5439/belfry?sslmode=disable'", "\"$DATABASE_URL\"").Replace(b.text)
	file := func(name string) string {
		path := filepath.Join(r.dir, fmt.Sprintf("block%d%s", r.n, name))
		require.NoError(r.t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	switch b.language {
	case "sh":
		return text
	case "sql":
		return "psql -X -q -v ON_ERROR_STOP=1 \"$DATABASE_URL\" -f " + file(".sql")
	case "go":
		return r.goScript(file(".go"))
	case "js":
		return "node " + file(".mjs")
	case "python":
		return "/usr/bin/python3 " + file(".py") // that of Debian, which has psycopg
	case "cpp":
		program := file(".cpp")
		return fmt.Sprintf("g++ -std=c++17 -o %s.out %[1]s $(pkg-config --cflags --libs cpp-httplib) -pthread; exec %[1]s.out", program)
	case "php":
		return "php " + file(".php")
	case "yaml":
		return "belfry config --config " + file(".yaml")
	case "json":
		return "jq . " + file(".json")
	}
	require.Fail(r.t, "no test can run this block: give it an entry in treatments", "%s", b)
	return ""
}

// goScript returns the command that runs a Go file as if it were in the repository.
func (r *runner) goScript(file string) string {
	r.t.Helper()
	name := fmt.Sprintf("page-block-%d-%d", os.Getpid(), r.n)
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(r.root, name, "main.go"): file}})
	require.NoError(r.t, err)
	require.NoError(r.t, os.WriteFile(file+".json", overlay, 0o600))
	program := strings.TrimSuffix(file, ".go")
	return fmt.Sprintf("(cd %s; go build -overlay %s.json -o %s ./%s); exec %s", r.root, file, program, name, program)
}

// greeting matches the addresses that belfry dev prints.
var greeting = regexp.MustCompile(`Belfry listens on http://(\S+); its data is in \S+\npsql '(\S+)'`)

// background starts a block that does not end, and waits for the output that shows that it works. If it is a server, later
// blocks use this server.
func (r *runner) background(script string, how treatment) {
	r.t.Helper()
	cmd := r.command(context.WithoutCancel(r.t.Context()), script, "BELFRY_HTTP_ADDR=127.0.0.1:0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out := &output{}
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(r.t, cmd.Start())
	stop := func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) // as Ctrl-C
		_ = cmd.Wait()                                     // the shell was ended by a signal
	}
	r.stops = append(r.stops, stop)
	ctx, cancel := context.WithTimeout(r.t.Context(), 4*patience) // a program is compiled first
	defer cancel()
	text := out.await(ctx, r.t, how.until)
	if match := greeting.FindStringSubmatch(text); match != nil {
		r.addr = match[1]
		r.env = append(r.env, "DATABASE_URL="+match[2], "BELFRY_DATABASE_URL="+match[2])
	} else if match := addrInLog.FindStringSubmatch(text); match != nil {
		r.addr = match[1]
	} else if how.stays {
		r.program = out
		return
	} else {
		r.stops = r.stops[:len(r.stops)-1]
		stop()
		return
	}
	r.env = append(r.env, "BELFRY_SERVER=http://"+r.addr)
}
