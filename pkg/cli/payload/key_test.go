package payload

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A simple path finds the same value as a path that is not simple.
func TestSimpleAndOtherPathsFindTheSameValue(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{
		`{"a":{"b":"text"}}`, `{"x":{"a":{"b":1}},"a":{"c":[1,{"b":2}],"b":18446744073709551616}}`, `{"a":{"b":"\u00e9\n"}}`,
		`{}`, `{"a":1}`, `{"a":{}}`, `{"a":{"b":null}}`, `{"a":{"b":[1]}}`, `[1]`, `"a"`, `null`, ` {"a" : {"b" : -1.5e3 } } `,
	} {
		simple, err := NewKey("--key", "$.a.b")
		require.NoError(t, err)
		require.NotNil(t, simple.members)
		other, err := NewKey("--key", "$.a[?@ == @]")
		require.NoError(t, err)
		require.Nil(t, other.members)
		other.path = simple.path
		want, wantErr := other.Of([]byte(payload))
		got, err := simple.Of([]byte(payload))
		require.Equal(t, want, got, payload)
		require.Equal(t, wantErr, err, payload)
	}
}
