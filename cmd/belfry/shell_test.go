//go:build !release

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pidVariable names the file for the process id of belfry.
const pidVariable = "BELFRY_TEST_PID"

// patience is the time limit of a command.
const patience = 30 * time.Second

// shell runs command lines in a folder.
type shell struct {
	t      *testing.T
	dir    string
	env    []string
	places *strings.Replacer // replaces placeholders such as QUEUE and URL
}

// newShell returns a shell in which the command belfry runs the test program.
func newShell(t *testing.T, env ...string) *shell {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	bin := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\nif [ -n \"$%s\" ]; then echo $$ > \"$%[1]s\"; fi\n%s=1 exec %s \"$@\"\n", pidVariable, commandVariable, self)
	require.NoError(t, os.WriteFile(filepath.Join(bin, "belfry"), []byte(script), 0o700)) //nolint:gosec // a program
	home := filepath.Dir(devDir(t))                                                       // belfry dev keeps the data of its Postgres there
	return &shell{t: t, dir: t.TempDir(), env: append(append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+home, "XDG_DATA_HOME="), env...)}
}

// command returns a command line that is ready to start.
func (s *shell) command(ctx context.Context, line string, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-e", "-c", line)
	cmd.Dir, cmd.Env = s.dir, append(slices.Clone(s.env), env...)
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// run runs a command line. It returns the output with one space between words.
func (s *shell) run(line string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	out, err := s.command(ctx, line).CombinedOutput()
	if err != nil {
		s.t.Errorf("%s: %v: %s", line, err, out)
	}
	return strings.Join(strings.Fields(string(out)), " ")
}

var addrInLog = regexp.MustCompile(`"msg":"ready".*"addr":"([^"]+)"`)

// start starts a command line, and returns after the command has printed the text wanted. stop sends SIGTERM to the command.
// addr is the address in the log of the command.
func (s *shell) start(line, wanted string) (addr string, stop func()) {
	s.t.Helper()
	pid := filepath.Join(s.t.TempDir(), "pid")
	cmd := s.command(s.t.Context(), line, pidVariable+"="+pid, "BELFRY_HTTP_ADDR=127.0.0.1:0")
	var out output
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(s.t, cmd.Start())
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	text := out.await(ctx, s.t, wanted)
	if match := addrInLog.FindStringSubmatch(text); match != nil {
		addr = match[1]
	}
	return addr, func() {
		written, err := os.ReadFile(pid)
		require.NoError(s.t, err)
		var process int
		_, err = fmt.Sscan(string(written), &process)
		require.NoError(s.t, err)
		require.NoError(s.t, syscall.Kill(process, syscall.SIGTERM))
		dead := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		defer dead.Stop()
		require.NoError(s.t, cmd.Wait(), "%s: %s", line, out.String())
	}
}

// do runs a command of the documentation.
func (s *shell) do(script string, c documentedRun) {
	s.t.Helper()
	script = c.before + strings.TrimSpace(s.places.Replace(script)+" "+c.more)
	if c.until == "" {
		if out := s.run(script); !strings.Contains(out, c.want) {
			s.t.Errorf("%s does not print %q. Its output:\n%s", script, c.want, out)
		}
		return
	}
	addr, stop := s.start(script, c.until)
	if c.meanwhile != "" {
		s.run(strings.ReplaceAll(c.meanwhile, "NAME:6632", addr))
	}
	stop()
}
