package deploy_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/belfry-mq/belfry/pkg/httpapi/openapi"
)

// root is the folder of the repository.
const root = "../.."

const (
	chart  = "deploy/helm/belfry"
	alerts = "config/prometheus/alerts.yml"
)

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	require.NoError(t, err)
	return text
}

// document is a decoded YAML document.
type document map[string]any

// at returns the value at keys of nested mappings, or nil.
func (d document) at(keys ...string) any {
	var found any = map[string]any(d)
	for _, key := range keys {
		inner, _ := found.(map[string]any)
		found = inner[key]
	}
	return found
}

// list returns the mappings in the list at keys.
func (d document) list(keys ...string) (found []document) {
	items, _ := d.at(keys...).([]any)
	for _, item := range items {
		if one, ok := item.(map[string]any); ok {
			found = append(found, one)
		}
	}
	return found
}

// mapping returns the mapping at keys, or nil.
func (d document) mapping(keys ...string) document {
	found, _ := d.at(keys...).(map[string]any)
	return found
}

// number returns the integer at keys, or 0.
func (d document) number(keys ...string) int {
	found, _ := d.at(keys...).(int)
	return found
}

// text returns the string at keys, or "".
func (d document) text(keys ...string) string {
	found, _ := d.at(keys...).(string)
	return found
}

// documents decodes a YAML stream. It leaves out empty documents.
func documents(t *testing.T, text []byte) (found []document) {
	t.Helper()
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var one map[string]any
		err := decoder.Decode(&one)
		if errors.Is(err, io.EOF) {
			return found
		}
		require.NoError(t, err)
		if one != nil {
			found = append(found, one)
		}
	}
}

// one returns the only document of a file.
func one(t *testing.T, name string) document {
	t.Helper()
	found := documents(t, read(t, name))
	require.Len(t, found, 1, name)
	return found[0]
}

// valueFiles are the example values of the chart.
func valueFiles(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, "deploy/helm/values/*.yaml"))
	require.NoError(t, err)
	require.Len(t, found, 5)
	for i := range found {
		found[i] = "deploy/helm/values/" + filepath.Base(found[i])
	}
	return found
}

// readElsewhere lists the files of deploy that tests of other folders read, with the folder of one such test.
var readElsewhere = map[string]string{
	"deploy/grafana/belfry.json":                              "scripts/board",
	"deploy/grafana/provisioning/dashboards/belfry.yaml":      "scripts/board",
	"deploy/grafana/provisioning/datasources/prometheus.yaml": "scripts/board",
	"deploy/observe/collector.yml":                            "test/container",
	"deploy/observe/prometheus.yml":                           "test/container",
	"deploy/packages/belfry.env":                              "test/packages",
	"deploy/packages/belfry.yaml":                             "test/packages",
	"deploy/packages/nfpm.yaml":                               "scripts/release", // which a test in test/packages runs
	"deploy/packages/postinstall.sh":                          "test/packages",
	"deploy/packages/postremove.sh":                           "test/packages",
	"deploy/packages/preinstall.sh":                           "test/packages",
	"deploy/packages/preremove.sh":                            "test/packages",
	"deploy/patroni/belfry.env":                               "test/ha",
	"deploy/patroni/belfry.sql":                               "test/ha",
	"deploy/patroni/etcd.env":                                 "test/ha",
	"deploy/patroni/patroni.env":                              "test/ha",
	"deploy/patroni/patroni.yml":                              "test/ha",
	"deploy/systemd/belfry.service":                           "test/packages",
}

// helm reads the files of the chart.
func TestEveryFileIsReadByATest(t *testing.T) {
	t.Parallel()
	known := regexp.MustCompile(`^deploy/(helm/belfry/((Chart|values)\.yaml|values\.schema\.json|\.helmignore|files/alerts\.yml|templates/[\w.]+\.(yaml|tpl|txt))` +
		`|helm/values/\w+\.yaml|kubernetes/\w+\.yaml|keda/\w+\.yaml)$`)
	require.NoError(t, fs.WalkDir(os.DirFS(root), "deploy", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || known.MatchString(name) {
			return err
		}
		sources, globErr := fs.Glob(os.DirFS(root), path.Join(readElsewhere[name], "*.go"))
		if readElsewhere[name] == "" || !slices.ContainsFunc(sources, func(source string) bool {
			return strings.Contains(string(read(t, source)), path.Base(name))
		}) {
			t.Errorf("no test reads %s", name)
		}
		return globErr
	}))
}

// A release publishes the image with the name of its tag of git, which begins with v.
func TestTheChartNamesAnImageOfARelease(t *testing.T) {
	t.Parallel()
	require.Regexp(t, `(?m)^appVersion: "v\d+\.\d+\.\d+"$`, string(read(t, chart+"/Chart.yaml")))
	require.Contains(t, string(read(t, ".github/workflows/release.yml")), `tags: ["v*"]`)
}

func TestTheAlertsOfTheChartAreOurs(t *testing.T) {
	t.Parallel()
	require.Equal(t, string(read(t, alerts)), string(read(t, chart+"/files/alerts.yml")), "run make manifests")
}

// settings returns the keys of config/belfry.yaml as section.key.
func settings(t *testing.T) map[string]any {
	t.Helper()
	found := map[string]any{}
	file := one(t, "config/belfry.yaml")
	for section := range file {
		for key, value := range file.mapping(section) {
			found[section+"."+key] = value
		}
	}
	return found
}

// A setting that Belfry does not have would stop every pod at its start.
func TestTheChartUsesOnlySettingsThatExist(t *testing.T) {
	t.Parallel()
	known := settings(t)
	variables := []string{"BELFRY_CONFIG"}
	for name := range known {
		variables = append(variables, "BELFRY_"+strings.ToUpper(strings.ReplaceAll(name, ".", "_")))
	}
	used := 0
	for _, folder := range []string{"deploy/helm", "deploy/kubernetes", "deploy/keda"} {
		require.NoError(t, fs.WalkDir(os.DirFS(root), folder, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			for _, variable := range regexp.MustCompile(`\bBELFRY_[A-Z0-9_]+`).FindAllString(string(read(t, name)), -1) {
				used++
				if !slices.Contains(variables, variable) {
					t.Errorf("%s names %s, which is no setting", name, variable)
				}
			}
			return nil
		}))
	}
	require.NotZero(t, used)
	configured := 0
	for _, name := range valueFiles(t) {
		config := one(t, name).mapping("config")
		for section := range config {
			for key := range config.mapping(section) {
				configured++
				require.Contains(t, known, section+"."+key, name)
			}
		}
	}
	require.NotZero(t, configured)
	// The comments of values.yaml name settings too.
	for _, name := range regexp.MustCompile(`\b(http|spool|dispatch|database|auth|encryption)\.[a-z]+_[a-z_]+\b`).FindAllString(string(read(t, chart+"/values.yaml")), -1) {
		require.Contains(t, known, name)
	}
}

// The schema describes each value, and nothing that is no value.
func TestTheSchemaHasTheValues(t *testing.T) {
	t.Parallel()
	var schema document
	require.NoError(t, json.Unmarshal(read(t, chart+"/values.schema.json"), &schema))
	values := one(t, chart+"/values.yaml")
	require.Contains(t, schema.at("properties"), "global")
	delete(schema.mapping("properties"), "global") // Helm sets it
	compare(t, "", values, schema)
	for _, name := range valueFiles(t) {
		for key := range one(t, name) {
			require.Contains(t, values, key, name)
		}
	}
}

// compare compares the keys of values with the properties of a schema. A schema without properties allows any keys.
func compare(t *testing.T, at string, values, schema document) {
	t.Helper()
	properties := schema.mapping("properties")
	if properties == nil || schema["additionalProperties"] != false {
		return
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(properties)), slices.Collect(maps.Keys(values)), "the keys of %q", at)
	for key := range values {
		if inner := values.mapping(key); inner != nil {
			compare(t, at+"."+key, inner, properties.mapping(key))
		}
	}
}

// The example for KEDA reads a number of a route that exists, with the authentication that the manifests make.
func TestTheScaledObjectReadsANumberOfARoute(t *testing.T) {
	t.Parallel()
	byKind := map[string]document{}
	for _, d := range documents(t, read(t, "deploy/keda/consumers.yaml")) {
		byKind[d.text("kind")] = d
	}
	require.Len(t, byKind, 3)
	triggers := byKind["ScaledObject"].list("spec", "triggers")
	require.Len(t, triggers, 1)
	trigger := triggers[0]
	require.Equal(t, "metrics-api", trigger.text("type"))
	require.Equal(t, "bearer", trigger.text("metadata", "authMode"))
	target, err := url.Parse(trigger.text("metadata", "url"))
	require.NoError(t, err)
	require.Equal(t, "6632", target.Port())
	var api document
	require.NoError(t, json.Unmarshal(openapi.Document, &api))
	route := regexp.MustCompile(`/[^/]+/[^/]+$`).ReplaceAllString(target.Path, "/{queue}/{group}")
	member := api.at("paths", route, "get", "responses", "200", "content", "application/json", "schema", "properties", trigger.text("metadata", "valueLocation"), "type")
	require.Equal(t, "integer", member)

	auth := byKind["TriggerAuthentication"]
	require.Equal(t, auth.text("metadata", "name"), trigger.text("authenticationRef", "name"))
	parameter := auth.list("spec", "secretTargetRef")[0]
	require.Equal(t, "token", parameter.text("parameter"))
	secret := byKind["Secret"]
	require.Equal(t, secret.text("metadata", "name"), parameter.text("name"))
	require.NotEmpty(t, secret.text("stringData", parameter.text("key")))
}

// guide is the guide for people who install the chart.
const guide = "docs/kubernetes.md"

// The guide names only files, values and settings that exist.
func TestTheGuideNamesWhatExists(t *testing.T) {
	t.Parallel()
	text := string(read(t, guide))
	for _, name := range regexp.MustCompile(`\bdeploy/[\w./-]*\w`).FindAllString(text, -1) {
		_, err := os.Stat(filepath.Join(root, name))
		require.NoError(t, err)
	}
	values, known := one(t, chart+"/values.yaml"), settings(t)
	checked := 0
	for _, found := range regexp.MustCompile("`([a-z]\\w+(?:\\.\\w+)+)`").FindAllStringSubmatch(text, -1) {
		name := found[1]
		if strings.HasSuffix(name, ".yaml") {
			continue
		}
		checked++
		if _, setting := known[name]; !setting {
			require.NotNil(t, values.at(strings.Split(name, ".")...), name)
		}
	}
	require.Greater(t, checked, 10)
	for _, file := range valueFiles(t) {
		require.Contains(t, text, "`"+filepath.Base(file)+"`")
	}
}
