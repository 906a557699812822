package contract

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func folderOf(texts map[string]string) fstest.MapFS {
	folder := fstest.MapFS{}
	for name, text := range texts {
		folder[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return folder
}

func TestAssemble(t *testing.T) {
	t.Parallel()
	got, err := Assemble(folderOf(map[string]string{
		"openapi.yaml":   "z: 1\na: {deep: {one: &x {b: \"<&>\", a: 1.5}, two: {<<: *x, a: null, c: *x}}}\ntags: [1]\n",
		"a.yaml":         "a:\n  deep:\n    three: |\n      two\n      lines\n",
		"b.yaml":         "tags: [2, \"3\"]\nwhen: 2026-05-16\nyes: true\n",
		"below/c.yaml":   "not: here\n",
		"not-a-part.yml": "not: here\n",
		"c.yaml":         "later: []\n",
	}))
	require.NoError(t, err)
	const want = `{
  "z": 1,
  "a": {
    "deep": {
      "one": {
        "b": "<&>",
        "a": 1.5
      },
      "two": {
        "b": "<&>",
        "a": null,
        "c": {
          "b": "<&>",
          "a": 1.5
        }
      },
      "three": "two\nlines"
    }
  },
  "tags": [
    1,
    2,
    "3"
  ],
  "when": "2026-05-16",
  "yes": true,
  "later": []
}
`
	require.Equal(t, strings.Split(want, "\n"), strings.Split(string(got), "\n"), "Assemble must keep the order of the members")
}

func TestConflictingPartsAreRefused(t *testing.T) {
	t.Parallel()
	for want, parts := range map[string]map[string]string{
		"there is no openapi.yaml":                    {"a.yaml": "a: 1\n"},
		`#/paths/~1a/get has two values, "1" and "2"`: {"openapi.yaml": "paths: {/a: {get: 1}}\n", "a.yaml": "paths: {/a: {get: 2}}\n"},
		"#/a has two values":                          {"openapi.yaml": "a: [1]\n", "a.yaml": "a: {b: 1}\n"},
		"reading a.yaml: it must be one YAML mapping": {"openapi.yaml": "a: 1\n", "a.yaml": "- 1\n"},
		"reading openapi.yaml: yaml":                  {"openapi.yaml": "a: [\n"},
		`line 2: "then that" has no value`:            {"openapi.yaml": "a: 1\nb: {text: first this, then that}\n"},
	} {
		_, err := Assemble(folderOf(parts))
		require.ErrorContains(t, err, want)
	}
}
