package wire

import (
	stdjson "encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/belfry-mq/belfry/pkg/process/inflight"
	"github.com/belfry-mq/belfry/pkg/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// codes reads the values of the constants of type Code from the source of
// pkg/queue, so that the test includes new codes.
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
	require.Contains(t, all, queue.CodeInvalid, "the constants must be found")
	for _, code := range all {
		require.Contains(t, statuses, code, "%s has no row in statuses", code)
	}
	require.Len(t, statuses, len(all), "statuses has a row for an unknown code")
	require.Equal(t, map[queue.Code]int{
		"invalid": 400, "unauthenticated": 401, "forbidden": 403, "too_large": 413, "too_slow": 408, "encoded": 415, "not_found": 404, "lease_gone": 409, "conflict": 409, "queue_full": 429,
		"unavailable": 503, "overloaded": 503, "undeliverable": 500, "internal": 500, "not_served": 501,
	}, statuses, "a status changed, or a code is new: add it to this table")
}

func TestJSONWritesInstantsIDsAndDurations(t *testing.T) {
	t.Parallel()
	type values struct {
		At, Never time.Time
		ID, None  queue.ID
		For       time.Duration
		Payload   jsontext.Value
		Absent    jsontext.Value
		List      []string
		Text      string
	}
	handle := JSON(func(p *Params) (any, error) {
		p.Status = http.StatusCreated
		return values{
			At: time.Date(2026, 5, 16, 14, 0, 0, 123_999_000, time.FixedZone("", 7200)), ID: queue.ID{15: 1}, For: 1500 * time.Millisecond,
			Payload: jsontext.Value(`{"a" : "\u0061\/\ud83d<", "a":1.50e+2, "b":12345678901234567890}`), Text: "<&>",
		}, nil
	})
	rec := httptest.NewRecorder()
	require.NoError(t, handle(echo.New().NewContext(httptest.NewRequest(http.MethodGet, "/", nil), rec)))
	require.Equal(t, http.StatusCreated, rec.Code)
	want := `{"At":"2026-05-16T12:00:00.123Z","Never":null,"ID":"00000000-0000-0000-0000-000000000001","None":null,"For":1.5,` +
		`"Payload":{"a":"\u0061\/\ud83d<","a":1.50e+2,"b":12345678901234567890},"Absent":null,"List":[],"Text":"<&>"}`
	require.Equal(t, want, rec.Body.String(), "the bytes must be the same")
}

// A stored value that is not JSON is written as a string. The other values do not change.
func TestAStoredValueThatIsNotJSONBecomesAString(t *testing.T) {
	t.Parallel()
	list := []stdjson.RawMessage{stdjson.RawMessage(` [1, "\ud800"]`), nil, stdjson.RawMessage("{\"a\":\"\xff"), stdjson.RawMessage("]"), stdjson.RawMessage("1 2"), stdjson.RawMessage(""), stdjson.RawMessage("true")}
	shown, err := json.Marshal(list, encoding)
	require.NoError(t, err)
	require.Equal(t, `[[1,"\ud800"],null,"{\"a\":\"�","]","1 2","",true]`, string(shown))
}

// A large answer is sent while it is encoded. If the encoding fails, the client can see that the answer is incomplete.
func TestAnIncompleteAnswerIsRecognized(t *testing.T) {
	t.Parallel()
	e := echo.New()
	e.HTTPErrorHandler = func(error, echo.Context) {}
	e.Use(CountMemory(inflight.NewBudget(1<<30, 1<<30)))
	row := jsontext.Value(`"` + strings.Repeat("x", 10_000) + `"`)
	rows := slices.Repeat([]jsontext.Value{row}, 100)
	e.GET("/whole", JSON(func(*Params) (any, error) { return rows, nil }))
	e.GET("/part", JSON(func(*Params) (any, error) { return append(slices.Clone(rows), jsontext.Value(`{`)), nil }))
	server := httptest.NewServer(e)
	defer server.Close()
	read := func(path string) ([]byte, error) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, http.NoBody)
		require.NoError(t, err)
		answer, err := server.Client().Do(request)
		require.NoError(t, err)
		defer func() { require.NoError(t, answer.Body.Close()) }()
		return io.ReadAll(answer.Body)
	}
	whole, err := read("/whole")
	require.NoError(t, err)
	require.True(t, jsontext.Value(whole).IsValid())
	require.Len(t, whole, 100*(len(row)+1)+1)
	_, err = read("/part")
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	server.Client().CloseIdleConnections()
}
