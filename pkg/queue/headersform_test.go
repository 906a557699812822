package queue

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Headers that are written as they are stored are not read token by token, and are the same.
func TestHeadersInTheStoredForm(t *testing.T) {
	require.True(t, isStored([]byte(`{"content-type":"application/json","tenant":"acme"}`)))
	long := strings.Repeat("x", MaxHeaderBytes-1)
	require.True(t, isStored([]byte(`{"a":"`+long+`"}`)))
	for _, raw := range []string{
		``, `{`, `{}`, `{"a"`, `{"a":"1"`, `{"a":"1",}`, `{"a":"1"}}`, `{"a":"1"} `, `{"a": "1"}`, `{"b":"1","a":"2"}`, `{"a":"1","a":"2"}`, `{"A":"1"}`,
		`{"":"1"}`, `{"a b":"1"}`, `{"a":1}`, `{"a":"é"}`, `{"a":"\n"}`, `{"a":"` + "\x7f" + `"}`, `{"a":"` + long + `x"}`, `{"` + strings.Repeat("a", MaxHeaderName+1) + `":""}`,
	} {
		require.False(t, isStored([]byte(raw)), raw)
	}
	rapid.Check(t, func(t *rapid.T) {
		raw := []byte(rapid.StringMatching(`\{("[a-cA]{0,2}": ?"[a-z ~"\\é]{0,2}",?){0,4}\}`).Draw(t, "raw"))
		if isStored(raw) {
			found, err := parseHeaders("headers", raw)
			require.NoError(t, err)
			require.Equal(t, string(raw), string(found))
		}
	})
}

func BenchmarkParseHeaders(b *testing.B) {
	raw := []byte(`{"content-type":"application/json","tenant":"acme","traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`)
	for b.Loop() {
		_, _ = ParseHeaders("headers", raw)
	}
}
