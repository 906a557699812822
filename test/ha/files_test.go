//go:build installed && linux

package ha

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// example is the folder of the files that the test uses.
const example = "../../deploy/patroni"

// readVariables returns the variables of a file of the example.
func readVariables(t *testing.T, name string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for line := range strings.Lines(readExample(t, name)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		require.True(t, ok, "%s: %q is not NAME=VALUE", name, line)
		found[key] = value
	}
	return found
}

func readExample(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(example, name))
	require.NoError(t, err)
	return string(text)
}

// address matches an address of the example, such as 10.0.0.12:5432. The first group is the number of the node, the second is
// the port.
var address = regexp.MustCompile(`10\.0\.0\.1([123]):(\d+)`)

// localize replaces each address of the example by an address of this machine. ports returns the port on this machine.
func localize(text string, ports func(node int, port string) int) string {
	return address.ReplaceAllStringFunc(text, func(found string) string {
		parts := address.FindStringSubmatch(found)
		return fmt.Sprintf("127.0.0.1:%d", ports(int(parts[1][0]-'1'), parts[2]))
	})
}

// with returns variables in the form of os.Environ. The maps later in the list win.
func with(all ...map[string]string) []string {
	merged := map[string]string{}
	for _, one := range all {
		for name, value := range one {
			merged[name] = value
		}
	}
	var env []string
	for name, value := range merged {
		env = append(env, name+"="+value)
	}
	return env
}
