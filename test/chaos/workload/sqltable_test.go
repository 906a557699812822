package workload

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestThePayloadOfARowIsTheRow(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]payload{
		`{"mark": "m", "poison": true}`: {"m", true},
		`{"op": "insert", "table": "chaos.task", "row": {"mark": "m", "poison": true}}`:           {"m", true},
		`{"op": "insert", "table": "chaos.task", "row": {"mark": "m", "poison": false}, "x": {}}`: {"m", false},
	} {
		var got payload
		require.NoError(t, json.Unmarshal([]byte(text), &got))
		require.Equal(t, want, got, text)
	}
	require.Error(t, json.Unmarshal([]byte(`"undone"`), &payload{}), "a rolled back message must not be delivered")
}
