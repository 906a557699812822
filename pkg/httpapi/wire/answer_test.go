package wire

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/belfry-mq/belfry/pkg/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// codes returns the values of the constants of type Code from the source of
// pkg/queue, so that a new code is tested too.
func codes(t *testing.T) []queue.Code {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../queue/errors.go", nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	var found []queue.Code
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if typ, ok := spec.Type.(*ast.Ident); ok && typ.Name == "Code" {
			for _, value := range spec.Values {
				literal, ok := value.(*ast.BasicLit)
				require.True(t, ok, "a code is a string literal")
				text, err := strconv.Unquote(literal.Value)
				require.NoError(t, err)
				found = append(found, queue.Code(text))
			}
		}
		return true
	})
	return found
}

func TestEveryCodeHasAStatus(t *testing.T) {
	t.Parallel()
	all := codes(t)
	require.Contains(t, all, queue.CodeInvalid, "the constants are found")
	for _, code := range all {
		require.Contains(t, statuses, code, "%s has no row in statuses", code)
	}
	require.Len(t, statuses, len(all), "a row of statuses belongs to no code")
	require.Equal(t, map[queue.Code]int{
		"invalid": 400, "too_large": 413, "not_found": 404, "lease_gone": 409, "queue_full": 429,
		"unavailable": 503, "overloaded": 503, "internal": 500,
	}, statuses, "a status changed, or a code is new: add it to this table")
}
