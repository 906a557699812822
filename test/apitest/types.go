package apitest

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

// RequireType checks that an answer has the members of T. The server encodes the answer by hand. Decoded into T and encoded
// again, the answer must have the same bytes. For a null in the answer, T may have the zero value or leave the member out.
// extra are members that only clients of Queen MQ read.
func RequireType[T any](t *testing.T, answer []byte, extra ...string) {
	t.Helper()
	var value T
	require.NoError(t, json.Unmarshal(answer, &value), "%s", answer)
	again, err := json.Marshal(value)
	require.NoError(t, err)
	nulls := map[string]bool{}
	require.Equal(t, flatten(t, answer, nulls, extra), flatten(t, again, nulls, nil))
	if len(nulls) == 0 && len(extra) == 0 {
		require.Equal(t, string(answer), string(again))
	}
}

// flatten returns the tokens of a JSON text in order, each with its path. It leaves out the members in extra. It leaves out
// each null and adds the path of the null to nulls. It also leaves out a zero value whose path is in nulls.
func flatten(t *testing.T, text []byte, nulls map[string]bool, extra []string) (flat []string) {
	t.Helper()
	decoder := jsontext.NewDecoder(bytes.NewReader(text))
	for {
		token, err := decoder.ReadToken()
		if errors.Is(err, io.EOF) {
			return flat
		}
		require.NoError(t, err, "%s", text)
		path := string(decoder.StackPointer())
		if kind, length := decoder.StackIndex(decoder.StackDepth()); kind == '{' && length%2 == 1 {
			continue // the name of a member; the path of the value contains it
		}
		switch value := token.String(); {
		case token.Kind() == 'n':
			nulls[path] = true
		case nulls[path] && (value == "" || value == "false"), slices.Contains(extra, path[strings.LastIndexByte(path, '/')+1:]):
		default:
			flat = append(flat, path+" "+value)
		}
	}
}

// RequireReads checks that the parser of a request reads each member of the request type T. Without the member, parse must
// return a different result. Each member must be set in at least one of the requests.
func RequireReads[T any](t *testing.T, parse func(body []byte) any, requests ...T) {
	t.Helper()
	missing := map[string]bool{}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
			missing[name] = true
		}
	}
	for _, request := range requests {
		body, err := json.Marshal(request)
		require.NoError(t, err)
		var members map[string]jsontext.Value
		require.NoError(t, json.Unmarshal(body, &members))
		whole := parse(body)
		for name, value := range members {
			delete(members, name)
			rest, err := json.Marshal(members)
			require.NoError(t, err)
			require.NotEqual(t, whole, parse(rest), "the parser does not read %s", name)
			members[name] = value
			delete(missing, name)
		}
	}
	require.Empty(t, missing, "no request has these members")
}
