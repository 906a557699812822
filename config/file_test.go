package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// The shipped file has every key with its default, and no other key.
func TestReferenceFileIsTheDefaults(t *testing.T) {
	t.Parallel()
	layer, err := parseFile("belfry.yaml", []byte(Reference()))
	require.NoError(t, err)
	for _, k := range allKeys() {
		require.Contains(t, layer, k.name, "config/belfry.yaml must list every key")
		value, ok := k.parse(layer[k.name].text)
		require.True(t, ok, k.name)
		require.EqualValues(t, k.valueIn(Default()), value, k.name)
	}
	require.Len(t, layer, len(allKeys()))

	cfg, err := Load(Options{File: write(t, Reference())})
	require.NoError(t, err)
	require.Len(t, cfg.sources, len(allKeys()))
	cfg.sources = nil
	require.Equal(t, Default(), cfg)
}

// Every key has a comment.
func TestReferenceFileCommentsEveryKey(t *testing.T) {
	t.Parallel()
	var doc yaml.Node
	require.NoError(t, yaml.Unmarshal([]byte(Reference()), &doc))
	sections := doc.Content[0].Content
	for i := 1; i < len(sections); i += 2 {
		for j := 0; j < len(sections[i].Content); j += 2 {
			name := sections[i].Content[j]
			require.NotEmpty(t, name.HeadComment, "%s.%s", sections[i-1].Value, name.Value)
		}
	}
	for _, a := range aliases {
		for _, name := range a.names {
			require.Contains(t, Reference(), name)
		}
	}
}

// BELFRY_A_B_C could mean a.b_c or a_b.c. So no two keys may have the same variable or flag.
func TestNamesAreUnique(t *testing.T) {
	t.Parallel()
	env, flags := map[string]string{}, map[string]string{}
	for _, k := range allKeys() {
		require.Empty(t, env[EnvName(k.name)], k.name)
		require.Empty(t, flags[FlagName(k.name)], k.name)
		env[EnvName(k.name)], flags[FlagName(k.name)] = k.name, k.name
	}
	require.Equal(t, "http.max_body_bytes", env["BELFRY_HTTP_MAX_BODY_BYTES"])
	require.Equal(t, "http.max_body_bytes", flags["http-max-body-bytes"])
}

func TestFilesWithoutSettingsAreAccepted(t *testing.T) {
	t.Parallel()
	for _, content := range []string{
		"", "\n", "# only a comment\n", "---\n", "{}", "~", "http:\n", "http:\n  # addr: ':1'\nlog: {}\n",
	} {
		cfg, err := Load(Options{File: write(t, content)})
		require.NoError(t, err, "%q", content)
		cfg.sources = nil
		require.Equal(t, Default(), cfg, "%q", content)
	}
}

func TestFileFollowsAnchors(t *testing.T) {
	t.Parallel()
	cfg, err := Load(Options{File: write(t, "dispatch: {poll_interval: &d 7s, max_poll_interval: *d}")})
	require.NoError(t, err)
	require.Equal(t, cfg.Dispatch.PollInterval, cfg.Dispatch.MaxPollInterval)
}

// A list has the same value in a file, in a variable and in the printed configuration.
func TestListsAreRead(t *testing.T) {
	t.Parallel()
	want := []string{"https://a.example", "http://b.example:3000"}
	for _, opts := range []Options{
		{File: write(t, "http:\n  cors_origins:\n    - https://a.example\n    - http://b.example:3000\n")},
		{File: write(t, "http: {cors_origins: 'https://a.example,http://b.example:3000'}")},
		{Environ: []string{"BELFRY_HTTP_CORS_ORIGINS=https://a.example, http://b.example:3000,"}},
	} {
		cfg, err := Load(opts)
		require.NoError(t, err)
		require.Equal(t, want, cfg.HTTP.CORSOrigins)
		var printed strings.Builder
		require.NoError(t, cfg.Print(&printed))
		again, err := Load(Options{File: write(t, printed.String())})
		require.NoError(t, err)
		require.Equal(t, want, again.HTTP.CORSOrigins, printed.String())
	}
}

func TestMistakesInTheFileAreReported(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"log: 8080":                          "section log must hold keys with values: level, format (file %s:1)",
		"http: {cors_origins: [a, {b: c}]}":  "http.cors_origins has an element that is not text: it must be a list of texts; put each text in quotes (file %s:1)",
		"[1, 2]":                             "the file must hold keys with values: database, http, dispatch, batch, smart_poll, listen, defaults, sweep, retention, audit, spool, history, live, problems, metrics, encryption, auth, dashboard, log (file %s:1)",
		"http:\n  addr: 6632":                "http.addr is 6632: it must be text: put the value in quotes (file %s:2)",
		"http:\n  addr:":                     "http.addr has no value: it must be text; remove the line to keep the default (file %s:2)",
		"http:\n  addr: {host: x}":           "http.addr holds a list or a section: it must be text (file %s:2)",
		"http:\n  addr: {}":                  "http.addr holds a list or a section: it must be text (file %s:2)",
		"dispatch:\n  poll_intervall: 5s":    "the key dispatch.poll_intervall is unknown: did you mean dispatch.poll_interval? (file %s:2)",
		"HTTP:\n  addr: ':1'":                "the key HTTP is unknown: did you mean http? (file %s:1)",
		"poll_interval: 5s":                  "the key poll_interval is unknown: did you mean dispatch.poll_interval? (file %s:1)",
		"log:\n  level: info\n  level: warn": "log.level is set twice, first on line 2: remove one of the two lines (file %s:3)",
		"log: {}\nlog: {}":                   "log is set twice, first on line 1: remove one of the two lines (file %s:2)",
		"database:\n  url: 12":               "database.url is ***: it must be text: put the value in quotes (file %s:2)",
		"? {a: b}\n: c":                      "the key  is unknown",
		"log: {}\n---\nlog: {}":              "it must hold one YAML document: remove everything after the line ---",
		"log: {":                             "as YAML: yaml: line 1",
	} {
		file := write(t, content)
		lines := problems(t, Options{File: file})
		require.Len(t, lines, 1, "%q: %v", content, lines)
		require.Contains(t, lines[0], replaceFile(want, file), "%q", content)
	}
}

// By default, max_connections leaves connections for pushes when dispatch.max_intentions pops wait.
func TestWaitingPopsLeaveConnectionsForPushes(t *testing.T) {
	t.Parallel()
	d := Default()
	require.GreaterOrEqual(t, d.HTTP.MaxConnections, d.Dispatch.MostRequests()+1000)
}
