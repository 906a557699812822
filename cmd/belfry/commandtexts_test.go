package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

var (
	// quotedCommand matches a command in quotation marks. commandLine matches a line with a command. Variables or a
	// pipe may precede the command.
	quotedCommand = regexp.MustCompile("[`\"](belfry [^`\"]+)[`\"]|<code[^>]*>(belfry .+?)</code>")
	commandLine   = regexp.MustCompile(`(?m)^\s*((?:\w+=\S+ |echo .* \| )*belfry (?:.*\\\n)*.+)$`)
	// bareCommand matches a command that a sentence names without quotation marks.
	bareCommand = regexp.MustCompile("[^\\s\"`>;|][^\"`>|\n]* belfry ([a-z]+)")
	// fence matches a code block of a page. Only blocks of type "sh" have commands. For example, docs/cli.md shows
	// the usage of a command in a block without a type.
	fence = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")
	// formatVerb matches a verb of fmt, or an expression of a template.
	formatVerb = regexp.MustCompile(`%(\[\d+\])?[sqdv]|\{\{.+?\}\}`)
)

// printed is a command line. where is the position of the text that shows it. script has the preceding lines of the
// same block.
type printed struct{ where, line, script string }

// commandsOfPage returns the commands of a Markdown page. It joins the lines of each command.
func commandsOfPage(t *testing.T, path string) (found []printed) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	add := func(line, script string) {
		line = strings.Join(strings.Fields(strings.ReplaceAll(line, "\\\n", " ")), " ")
		if line != "belfry …" {
			found = append(found, printed{path, line, script})
		}
	}
	for _, block := range fence.FindAllStringSubmatch(string(text), -1) {
		if block[1] == "sh" {
			for _, at := range commandLine.FindAllStringSubmatchIndex(block[2], -1) {
				script := block[2][:at[3]]
				if strings.HasSuffix(path, "cli.md") { // the examples of a command do not depend on each other
					script = ""
				}
				add(block[2][at[2]:at[3]], script)
			}
		}
	}
	sentences := strings.ReplaceAll(fence.ReplaceAllString(string(text), ""), "[`belfry ", "[`") // the text of a link is not a command
	for _, match := range quotedCommand.FindAllStringSubmatch(sentences, -1) {
		if match[1] != "" && strings.HasPrefix(match[0], "`") {
			add(match[1], "")
		}
	}
	return found
}

// pages are the pages of the documentation.
func pages(t *testing.T) []string {
	t.Helper()
	found := []string{"../../README.md", "../../CONTRIBUTING.md", "../../SECURITY.md", "../../examples/README.md"}
	for _, pattern := range []string{"../../docs/*.md", "../../docs/http/*.md", "../../docs/coming-from/*.md"} {
		some, err := filepath.Glob(pattern)
		require.NoError(t, err)
		found = append(found, some...)
	}
	return found
}

// commandsOfText returns the commands of a text that a program prints. A line that begins with a command is a
// command. A command within a sentence needs quotation marks. bare has the sentences with a command without quotation
// marks.
func commandsOfText(text string, isCommand func(word string) bool) (found, bare []string) {
	text = formatVerb.ReplaceAllString(text, "1")
	for _, match := range commandLine.FindAllStringSubmatch(text, -1) {
		line, _, _ := strings.Cut(strings.TrimSpace(match[1]), "  ") // in a table, the command is the first column
		if _, rest, begins := strings.Cut(line, "belfry "); begins && isCommand(strings.Fields(rest)[0]) {
			found = append(found, line)
		}
	}
	for _, match := range quotedCommand.FindAllStringSubmatch(text, -1) {
		found = append(found, strings.ReplaceAll(match[1]+match[2], "\n", " "))
	}
	for _, match := range bareCommand.FindAllStringSubmatch(text, -1) {
		if isCommand(match[1]) {
			bare = append(bare, match[0])
		}
	}
	return found, bare
}

// textsOfGo calls f with the texts in the Go files of a folder. In a concatenation, "1" replaces each operand that is
// not a literal.
func textsOfGo(t *testing.T, dir string, f func(where, text string)) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			expr, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			text, isText := textOf(expr)
			if isText {
				f(files.Position(n.Pos()).String(), text)
			}
			return !isText
		})
		return nil
	}))
}

// textOf returns the text of a literal, or of a concatenation that contains a literal.
func textOf(expr ast.Expr) (text string, ok bool) {
	switch e := expr.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "1", false
		}
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			left, isLeft := textOf(e.X)
			right, isRight := textOf(e.Y)
			return left + right, isLeft || isRight
		}
	}
	return "1", false
}

// shellWords splits a line as a shell does, up to a redirection or a pipe.
func shellWords(line string) (words []string) {
	var word strings.Builder
	var quote rune
	open := false
	end := func() {
		if open {
			words = append(words, word.String())
		}
		word.Reset()
		open = false
	}
	for _, r := range line {
		switch {
		case quote == 0 && strings.ContainsRune("<>|;&#", r):
			if word.String() == "2" { // the 2 of 2>
				open = false
			}
			end()
			return words
		case quote == 0 && r == ' ':
			end()
		case r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, open = r, true
		default:
			word.WriteRune(r)
			open = true
		}
	}
	end()
	return words
}

// parses parses the command line without running it, and returns the error. A line with only the names of a command
// may lack arguments.
func parses(line string) error {
	words := shellWords(line[strings.Index(line, "belfry ")+len("belfry "):])
	for i := range words {
		if words[i] == "N" { // a placeholder of a number
			words[i] = "1"
		}
	}
	root := newRootCmd()
	root.InitDefaultHelpCmd()
	cmd, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	if onlyGroups(cmd) && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return noSuchCommand(cmd, rest)
	}
	if len(rest) == 0 || cmd.DisableFlagParsing {
		return nil
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	for _, check := range []func() error{func() error { return cmd.ValidateArgs(cmd.Flags().Args()) }, cmd.ValidateRequiredFlags, cmd.ValidateFlagGroups} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// onlyNames reports whether a line names a command without the arguments and flags that it needs.
func onlyNames(line string) bool {
	cmd, rest, err := newRootCmd().Find(shellWords(strings.TrimPrefix(line, "belfry ")))
	return err == nil && len(rest) == 0 && (onlyGroups(cmd) || cmd.ValidateArgs(nil) != nil || cmd.ValidateRequiredFlags() != nil)
}

// allPrinted returns the commands of the documentation and of the texts that programs print. It fails the test if a
// program prints a command within a sentence without quotation marks.
func allPrinted(t *testing.T) (found []printed) {
	t.Helper()
	for _, page := range pages(t) {
		found = append(found, commandsOfPage(t, page)...)
	}
	inPages := len(found)
	commands := newRootCmd().Commands()
	isCommand := func(word string) bool {
		return slices.ContainsFunc(commands, func(c *cobra.Command) bool { return c.Name() == word })
	}
	read := func(where, text string) {
		lines, bare := commandsOfText(text, isCommand)
		for _, sentence := range bare {
			t.Errorf("%s: put the command in quotation marks: %s", where, sentence)
		}
		for _, line := range lines {
			found = append(found, printed{where: where, line: line})
		}
	}
	for _, dir := range []string{".", "../../pkg", "../../config"} {
		textsOfGo(t, dir, read)
	}
	for _, pattern := range []string{"../../pkg/dashboard/page/templates/*.html", "../../pkg/cli/cheat.txt", "../../sql/schema/*.sql", "../../sql/functions/*/*.sql"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			read(file, string(text))
		}
	}
	require.Greater(t, inPages, 100)
	require.Greater(t, len(found)-inPages, 100)
	return found
}

// This test requires that every printed command exists and accepts its printed flags and arguments.
func TestPrintedCommandsExist(t *testing.T) {
	t.Parallel()
	for _, c := range allPrinted(t) {
		if err := parses(c.line); err != nil {
			t.Errorf("%s: %s: %v", c.where, c.line, err)
		}
	}
}
