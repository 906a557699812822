//go:build installed

package packages_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// testRedHat reads the package for Red Hat. It does not install the package, because the machine of the test is a Debian.
func testRedHat(t *testing.T, dist string) {
	rpm := filepath.Join(dist, base+".rpm")
	listed := map[string]string{}
	// A line has path, size, time, digest, mode, owner, group, and whether the file is a setting.
	for line := range strings.Lines(output(t, "rpm", "--query", "--package", "--dump", rpm)) {
		part := strings.Fields(line)
		require.Greater(t, len(part), 8, line)
		listed[part[0]] = strings.Join(part[4:8], " ")
	}
	for path, want := range map[string]string{
		"/usr/bin/belfry": "0100755 root root 0", "/etc/belfry": "040755 root root 0",
		"/etc/belfry/belfry.yaml": "0100644 root root 1", "/etc/belfry/belfry.env": "0100640 root belfry 1",
		"/var/lib/belfry": "040700 belfry belfry 0", "/usr/lib/systemd/system/belfry.service": "0100644 root root 0",
		"/usr/share/man/man1/belfry-serve.1.gz": "0100644 root root 0", "/usr/share/bash-completion/completions/belfry": "0100644 root root 0",
		"/usr/share/zsh/site-functions/_belfry": "0100644 root root 0", "/usr/share/licenses/belfry/LICENSE": "0100644 root root 0",
	} {
		require.Equal(t, want, listed[path], path)
	}
	about := output(t, "rpm", "--query", "--package", "--info", rpm)
	for _, line := range []string{`Version +: 0\.0\.1~test`, `Architecture: x86_64`, `License +: Apache-2\.0`, `Build Host +: belfry`} {
		require.Regexp(t, `(?m)^`+line+`$`, about)
	}
	require.Contains(t, output(t, "rpm", "--query", "--package", "--requires", rpm), "shadow-utils")
	scripts := output(t, "rpm", "--query", "--package", "--scripts", rpm)
	for _, part := range []string{"preinstall", "postinstall", "preuninstall", "postuninstall"} {
		require.Contains(t, scripts, part+" scriptlet")
	}
}
