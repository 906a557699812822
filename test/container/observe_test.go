package container_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// composeFile is what the tests read of a file of Compose.
type composeFile struct {
	Services map[string]struct {
		Environment map[string]string
		Volumes     []string
	}
	Volumes map[string]any
}

func readYAML(t *testing.T, path string, to any) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("../..", path))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(raw, to), path)
}

// Each file that a service reads exists, each volume is declared, and each service that is named as an address exists.
func TestTheComposeFilesFitTogether(t *testing.T) {
	var base, observe composeFile
	readYAML(t, "docker-compose.yml", &base)
	readYAML(t, "compose.observe.yml", &observe)
	for _, file := range []composeFile{base, observe} {
		for name, service := range file.Services {
			for _, volume := range service.Volumes {
				from, _, _ := strings.Cut(volume, ":")
				if strings.HasPrefix(from, ".") {
					require.FileExists(t, firstFile(t, filepath.Join("../..", from)), "%s of %s", from, name)
				} else {
					require.Contains(t, file.Volumes, from, name)
				}
			}
		}
	}

	var prometheus struct {
		RuleFiles     []string `yaml:"rule_files"`
		ScrapeConfigs []struct {
			StaticConfigs []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	readYAML(t, "deploy/observe/prometheus.yml", &prometheus)
	require.Contains(t, base.Services, host(prometheus.ScrapeConfigs[0].StaticConfigs[0].Targets[0]))
	require.True(t, slices.ContainsFunc(observe.Services["prometheus"].Volumes, func(volume string) bool {
		return strings.Contains(volume, ":/etc/prometheus/"+prometheus.RuleFiles[0])
	}))
	require.Contains(t, observe.Services, host(observe.Services["grafana"].Environment["PROMETHEUS_URL"]))
	require.Contains(t, observe.Services, host(observe.Services["belfry"].Environment["OTEL_EXPORTER_OTLP_ENDPOINT"]))

	var collector struct {
		Receivers, Processors map[string]any
		Exporters             map[string]struct{ Endpoint string }
		Service               struct {
			Pipelines map[string]struct{ Receivers, Processors, Exporters []string }
		}
	}
	readYAML(t, "deploy/observe/collector.yml", &collector)
	traces := collector.Service.Pipelines["traces"]
	require.Contains(t, collector.Receivers, traces.Receivers[0])
	require.Contains(t, collector.Processors, traces.Processors[0])
	require.Contains(t, observe.Services, host(collector.Exporters[traces.Exporters[0]].Endpoint))
}

// host returns the host of an address with or without a scheme.
func host(address string) string {
	_, after, found := strings.Cut(address, "://")
	if !found {
		after = address
	}
	name, _, _ := strings.Cut(after, ":")
	return name
}

// firstFile returns path, or a file in the folder path.
func firstFile(t *testing.T, path string) string {
	t.Helper()
	found := path
	require.NoError(t, filepath.WalkDir(path, func(p string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			found = p
		}
		return err
	}))
	return found
}
