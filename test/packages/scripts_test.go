//go:build installed

package packages_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// runScript runs a script of the packages on a machine with systemd, which has a user belfry or not. It returns the commands
// that would change the machine.
func runScript(t *testing.T, name string, known bool, args ...string) (changes []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../deploy/packages", name))
	require.NoError(t, err)
	dir := t.TempDir()
	calls := filepath.Join(dir, "calls")
	for _, program := range []string{"systemctl", "useradd", "groupadd", "userdel", "getent"} {
		code := "echo " + program + ` "$@" >>"` + calls + `"`
		if program == "getent" {
			code = map[bool]string{true: "exit 0", false: "exit 2"}[known]
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, program), []byte("#!/bin/sh\n"+code+"\n"), 0o700))
	}
	script := strings.NewReplacer("/run/systemd/system", dir, "/var/lib/belfry", filepath.Join(dir, "state")).Replace(string(text))
	run := exec.CommandContext(t.Context(), "sh", append([]string{"-c", script, name}, args...)...)
	run.Env = []string{"PATH=" + dir + ":/usr/bin:/bin"}
	said, err := run.CombinedOutput()
	require.NoError(t, err, string(said))
	done, err := os.ReadFile(calls)
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	for line := range strings.Lines(string(done)) {
		changes = append(changes, strings.Join(strings.Fields(line)[:2], " "))
	}
	return changes
}

func TestScriptsOfThePackages(t *testing.T) {
	t.Parallel()
	restart, reload, stop := []string{"systemctl daemon-reload", "systemctl try-restart"}, []string{"systemctl daemon-reload"}, []string{"systemctl --no-reload"}
	for _, c := range []struct {
		script, args string
		known        bool
		want         []string
	}{
		{"preinstall.sh", "install", false, []string{"groupadd --system", "useradd --system"}},
		{"preinstall.sh", "upgrade 1.0.0", true, nil},
		// A running service is restarted, and no service is started.
		{"postinstall.sh", "configure", true, restart},
		{"postinstall.sh", "configure 1.0.0", true, restart},
		{"postinstall.sh", "1", true, restart},
		{"postinstall.sh", "2", true, restart},
		{"preremove.sh", "upgrade 1.1.0", true, nil},
		{"preremove.sh", "1", true, nil},
		{"preremove.sh", "remove", true, stop},
		{"preremove.sh", "0", true, stop},
		{"postremove.sh", "remove", true, reload},
		{"postremove.sh", "0", true, reload},
		{"postremove.sh", "purge", true, append(reload, "userdel belfry")},
		{"postremove.sh", "purge", false, reload},
	} {
		require.Equal(t, c.want, runScript(t, c.script, c.known, strings.Fields(c.args)...), "%s %s", c.script, c.args)
	}
}
