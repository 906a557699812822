package arch_test

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// logBreaches reports log messages that break the style of CONTRIBUTING.md.
func logBreaches(files []source) []string {
	var complaints []string
	for _, file := range files {
		if file.test || !slices.Contains(file.imports, "go.uber.org/zap") {
			continue
		}
		ast.Inspect(file.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			message := call.Args[0]
			if ok && method.Sel.Name == "Log" && len(call.Args) > 1 {
				message = call.Args[1]
			}
			if ok && slices.Contains([]string{"Debug", "Info", "Warn", "Error", "Log"}, method.Sel.Name) && !isLogStyle(literals(message)) {
				complaints = append(complaints, file.at(n)+": a log line begins in lower case, has no period, and joins two sentences with a semicolon")
			}
			return true
		})
	}
	return complaints
}

// literals joins the string literals of an expression.
func literals(e ast.Expr) (text string) {
	ast.Inspect(e, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			value, _ := strconv.Unquote(literal.Value) // cannot fail: the parser accepted the literal
			text += value
		}
		return true
	})
	return text
}

// isLogStyle reports whether a message has the style of CONTRIBUTING.md. An empty message passes: it has no literal in this
// call.
func isLogStyle(message string) bool {
	first, _, _ := strings.Cut(message, " ")
	initial, _ := utf8.DecodeRuneInString(first)
	isName := first == "Postgres" || len(first) > 1 && first == strings.ToUpper(first)
	return (isName || !unicode.IsUpper(initial)) && !strings.HasSuffix(message, ".") && !strings.Contains(message, ". ")
}

func TestLogLinesHaveOneStyle(t *testing.T) {
	t.Parallel()
	holds(t, logBreaches(repository(t)))
}

// logLine returns an example: a file that logs a message.
func logLine(message string) string {
	return "pkg/a/a.go :: package a\n\nimport \"go.uber.org/zap\"\n\nfunc f(log *zap.Logger, text string) { log.Warn(" + message + ") }\n"
}
