package arch_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// variable matches the name of an environment variable of Belfry.
var variable = regexp.MustCompile(`\bBELFRY_[A-Z0-9_]+\b`)

// readYAML parses a file of the repository.
func readYAML(t *testing.T, name string) *yaml.Node {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	require.NoError(t, err)
	return parseYAML(t, string(text))
}

func parseYAML(t *testing.T, text string) *yaml.Node {
	t.Helper()
	var document yaml.Node
	require.NoError(t, yaml.Unmarshal([]byte(text), &document))
	require.Len(t, document.Content, 1, "one document")
	return document.Content[0]
}

// at returns the node at keys of nested mappings, or nil.
func at(node *yaml.Node, keys ...string) *yaml.Node {
	for _, key := range keys {
		if node == nil || node.Kind != yaml.MappingNode {
			return nil
		}
		var next *yaml.Node
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == key {
				next = node.Content[i+1]
			}
		}
		node = next
	}
	return node
}

// settings returns the names of the environment variables for the keys of config/belfry.yaml.
func settings(config *yaml.Node) []string {
	var names []string
	for i := 0; i+1 < len(config.Content); i += 2 {
		section, keys := config.Content[i].Value, config.Content[i+1]
		for j := 0; j+1 < len(keys.Content); j += 2 {
			names = append(names, strings.ToUpper("belfry_"+section+"_"+keys.Content[j].Value))
		}
	}
	return names
}

// variables returns every BELFRY_ name in the keys and values below node, without comments.
func variables(node *yaml.Node) []string {
	names := variable.FindAllString(node.Value, -1)
	for _, child := range node.Content {
		names = append(names, variables(child)...)
	}
	return names
}

// composeBreaches reports variables that Belfry would refuse at its start, and a stop timeout that is too short.
func composeBreaches(compose, config *yaml.Node) []string {
	var complaints []string
	known := settings(config)
	for _, name := range variables(compose) {
		if !slices.Contains(known, name) {
			complaints = append(complaints, fmt.Sprintf("docker-compose.yml names %s, which is not a key of config/belfry.yaml", name))
		}
	}
	stop, err := duration(at(config, "http", "shutdown_timeout"))
	if err != nil {
		return append(complaints, fmt.Sprintf("config/belfry.yaml: http.shutdown_timeout: %v", err))
	}
	delay, err := duration(at(config, "http", "drain_delay"))
	if err != nil {
		return append(complaints, fmt.Sprintf("config/belfry.yaml: http.drain_delay: %v", err))
	}
	stop += delay
	grace, err := duration(at(compose, "services", "belfry", "stop_grace_period"))
	if err != nil {
		return append(complaints, fmt.Sprintf("docker-compose.yml: stop_grace_period of belfry: %v", err))
	}
	if grace <= stop {
		complaints = append(complaints, fmt.Sprintf(
			"docker-compose.yml kills belfry after %s, but a stop may take %s (http.drain_delay plus http.shutdown_timeout)", grace, stop))
	}
	return complaints
}

// exactImage matches an image with a version of at least two numbers, or with a digest.
var exactImage = regexp.MustCompile(`^[^:@]+(:v?\d+\.\d+[\w.-]*|@sha256:[0-9a-f]{64}|:[\w.-]+@sha256:[0-9a-f]{64})$`)

// exposureBreaches reports ports that other machines can reach, default passwords, and images without an exact version.
func exposureBreaches(compose *yaml.Node) (complaints []string) {
	services := at(compose, "services")
	for i := 0; i+1 < len(services.Content); i += 2 {
		name, service := services.Content[i].Value, services.Content[i+1]
		if ports := at(service, "ports"); ports != nil {
			for _, port := range ports.Content {
				if !strings.HasPrefix(port.Value, "127.0.0.1:") {
					complaints = append(complaints, fmt.Sprintf("docker-compose.yml publishes port %q of %s on other addresses, not only on 127.0.0.1", port.Value, name))
				}
			}
		}
		if image := at(service, "image"); image != nil && !exactImage.MatchString(image.Value) {
			complaints = append(complaints, fmt.Sprintf("docker-compose.yml: the image %s of %s has no exact version", image.Value, name))
		}
		environment := at(service, "environment")
		for j := 0; environment != nil && environment.Kind == yaml.MappingNode && j+1 < len(environment.Content); j += 2 {
			key, value := environment.Content[j].Value, environment.Content[j+1].Value
			secret := strings.HasSuffix(key, "PASSWORD") || strings.Contains(value, "PASSWORD")
			if secret && !strings.Contains(value, "PASSWORD:?") {
				complaints = append(complaints, fmt.Sprintf("docker-compose.yml: %s of %s has a default password: use ${POSTGRES_PASSWORD:?}", key, name))
			}
		}
	}
	return complaints
}

func TestComposeExposesNothing(t *testing.T) {
	t.Parallel()
	holds(t, exposureBreaches(readYAML(t, "docker-compose.yml")))
	dockerfile, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	require.NoError(t, err)
	for _, from := range regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(string(dockerfile), -1) {
		require.True(t, from[1] == "scratch" || exactImage.MatchString(from[1]), from[1])
	}
}

func duration(node *yaml.Node) (time.Duration, error) {
	if node == nil {
		return 0, fmt.Errorf("it is not set")
	}
	return time.ParseDuration(node.Value)
}

func TestComposeUsesOnlyConfigKeys(t *testing.T) {
	t.Parallel()
	compose := readYAML(t, "docker-compose.yml")
	require.NotEmpty(t, variables(compose))
	holds(t, composeBreaches(compose, readYAML(t, "config/belfry.yaml")))
}
