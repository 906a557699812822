package manifest

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// An export has the payload of a schedule as YAML. A later apply must send the same JSON.
func TestAPayloadSurvivesTheFile(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{
		`null`, `true`, `0`, `-1`, `1.0`, `1e400`, `12345678901234567890`, `""`, `"null"`, `"1"`, `"yes"`, `"{{scheduled_at}}"`, `"a: b # c"`, `"two\nlines\t"`, `"\ud83d\ude00"`, `"\u0085\u2028"`,
		`[]`, `{}`, `[1,[2,{}],"- x"]`, `{"b":1,"a":{"<<":2,"true":[null]},"":"2001-01-01","0x1f":"0o7"}`, `{"k: v":"'\"","{":"}","[,":"],"}`,
	} {
		node, err := nodeOf([]byte(payload))
		require.NoError(t, err, payload)
		text, err := yaml.Marshal(map[string][]namedSchedule{"schedules": {{Name: "s", Queue: "q", Every: "1h", Payload: *node}}})
		require.NoError(t, err, payload)
		read, err := Read(text)
		require.NoError(t, err, "%s: %s", payload, text)
		got, err := jsonOf(&read.Schedules[0].Payload)
		require.NoError(t, err)
		require.Equal(t, plain(t, payload), plain(t, string(got)), "%s", text)
	}
}

// plain returns JSON whose texts have their usual escapes.
func plain(t *testing.T, text string) string {
	t.Helper()
	node, err := nodeOf([]byte(text))
	require.NoError(t, err)
	again, err := jsonOf(node)
	require.NoError(t, err)
	require.True(t, json.Valid(again), "%s", again)
	return string(again)
}

func TestAFileWithABadScheduleIsRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`schedules: [{name: s, payload: 1}]`:                                            "a schedule without name or queue",
		`schedules: [{name: s, queue: q}]`:                                              `the schedule "s" has no payload: write null`,
		`schedules: [{name: s, queue: q, payload: 1}, {name: s, queue: q, payload: 1}]`: `the schedule "s" twice`,
		`schedules: [{name: s, queue: q, payload: 1, evry: 1s}]`:                        "field evry not found",
		`schedules: [{name: s, queue: q, payload: .inf}]`:                               "JSON has no value .inf",
		`schedules: [{name: s, queue: q, payload: {[1]: 2}}]`:                           "a name of a member must be a text",
		"x: &x {a: 1}\nschedules: [{name: s, queue: q, payload: {<<: *x}}]":             "field x not found",
		"schedules: [{name: s, queue: q, payload: {a: &x {b: 1}, c: {<<: *x}}}]":        "<< is not possible in a payload",
	} {
		_, err := Read([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
	read, err := Read([]byte(`schedules: [{name: s, queue: q, payload: {at: 2026-05-16, n: 0x10, all: &x [1], again: *x, none: null}, every: 1h}]`))
	require.NoError(t, err)
	got, err := json.Marshal(read.Schedules[0])
	require.NoError(t, err)
	require.JSONEq(t, `{"name":"s","queue":"q","every":"1h","payload":{"at":"2026-05-16","n":16,"all":[1],"again":[1],"none":null}}`, string(got))
	for text, listed := range map[string]bool{"queues: []": false, "schedules: []": true} {
		read, err := Read([]byte(text))
		require.NoError(t, err)
		require.Equal(t, listed, read.Schedules != nil, text)
	}
}
