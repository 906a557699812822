//go:build installed

package packages_test

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"os/user"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/pgtest"
)

// patience limits the start and the stop of the service.
const patience = 30 * time.Second

// installed returns the version of the package on this machine, or "". A package that was removed but not purged has a version
// too.
func installed() string {
	text, err := exec.Command("dpkg-query", "--show", "--showformat", "${Version}", "belfry").Output()
	if err != nil {
		return ""
	}
	return string(text)
}

// install installs the package as docs/install.md says, and purges it at the end of the test.
func install(t *testing.T, dist string) {
	t.Helper()
	require.Zero(t, os.Getuid(), "the test installs a package on this machine, so it needs root")
	if installed() == debian { // an earlier test was killed
		output(t, "dpkg", "--purge", "belfry")
	}
	require.Empty(t, installed(), "a package belfry is installed on this machine; the test would replace and remove it")
	t.Cleanup(func() { _ = exec.Command("dpkg", "--purge", "belfry").Run() })
	commands := documented(t, "Debian and Ubuntu")
	require.Len(t, commands, 2)
	require.Contains(t, follow(t, dist, commands[0]), base+".deb: OK")
	require.Contains(t, follow(t, dist, commands[1]), "Set BELFRY_DATABASE_URL in /etc/belfry/belfry.env")
}

// owner returns the mode, the user and the group of a file, such as "-rw-r----- root belfry".
func owner(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	stat, ok := info.Sys().(*syscall.Stat_t)
	require.True(t, ok)
	u, err := user.LookupId(strconv.Itoa(int(stat.Uid)))
	require.NoError(t, err)
	g, err := user.LookupGroupId(strconv.Itoa(int(stat.Gid)))
	require.NoError(t, err)
	return info.Mode().String() + " " + u.Username + " " + g.Name
}

func testDebian(t *testing.T, dist string) {
	install(t, dist)
	for path, want := range map[string]string{
		"/usr/bin/belfry": "-rwxr-xr-x root root", "/etc/belfry": "drwxr-xr-x root root",
		"/etc/belfry/belfry.yaml": "-rw-r--r-- root root", "/etc/belfry/belfry.env": "-rw-r----- root belfry",
		"/var/lib/belfry": "drwx------ belfry belfry", "/usr/lib/systemd/system/belfry.service": "-rw-r--r-- root root",
		"/usr/share/bash-completion/completions/belfry": "-rw-r--r-- root root", "/usr/share/doc/belfry/copyright": "-rw-r--r-- root root",
	} {
		require.Equal(t, want, owner(t, path), path)
	}
	belfry, err := user.Lookup("belfry")
	require.NoError(t, err)
	require.Equal(t, "/var/lib/belfry", belfry.HomeDir)
	require.Contains(t, output(t, "getent", "passwd", "belfry"), ":/usr/sbin/nologin")
	require.Equal(t, "belfry "+version+"\n", output(t, "belfry", "version"))
	require.Empty(t, output(t, "systemd-analyze", "verify", "--man=no", "/usr/lib/systemd/system/belfry.service"))
	require.Contains(t, output(t, "gzip", "--decompress", "--stdout", "/usr/share/man/man1/belfry-serve.1.gz"), "Run the server until SIGINT or SIGTERM")
	require.Contains(t, output(t, "bash", "-c", ". /usr/share/bash-completion/completions/belfry; complete -p belfry"), "belfry")

	serveAsTheUnit(t, belfry)

	removal := documented(t, "Uninstall")
	require.Len(t, removal, 2)
	follow(t, dist, removal[0])
	require.NoFileExists(t, "/usr/bin/belfry")
	require.NoFileExists(t, "/usr/lib/systemd/system/belfry.service")
	text, err := os.ReadFile("/etc/belfry/belfry.env")
	require.NoError(t, err)
	require.Contains(t, string(text), "\nBELFRY_DATABASE_URL=postgres", "a removal keeps the settings")
	follow(t, dist, removal[1])
	for _, path := range []string{"/etc/belfry", "/var/lib/belfry", "/usr/share/doc/belfry"} {
		require.NoDirExists(t, path)
	}
	require.Error(t, exec.CommandContext(t.Context(), "getent", "passwd", "belfry").Run(), "a purge removes the user")
}

// lockedBuffer collects the log of the service.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// environment appends lines to the environment file of the unit and returns its variables, as systemd reads them.
func environment(t *testing.T, lines ...string) []string {
	t.Helper()
	file := unit(t, "EnvironmentFile")[0]
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(strings.Join(lines, "\n") + "\n")
	require.NoError(t, errors.Join(err, f.Close()))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return regexp.MustCompile(`(?m)^[A-Z_]+=.*$`).FindAllString(string(text), -1)
}

// serveAsTheUnit does what systemd does with the unit: it runs the command line as the user with the environment file, and waits
// for the notification. The machine of the test may have no systemd.
func serveAsTheUnit(t *testing.T, as *user.User) {
	t.Helper()
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: "@belfry-packages-" + strconv.Itoa(os.Getpid()), Net: "unixgram"})
	require.NoError(t, err)
	defer func() { _ = manager.Close() }()
	told := func(want string) {
		t.Helper()
		require.NoError(t, manager.SetReadDeadline(time.Now().Add(patience)))
		message := make([]byte, 100)
		n, err := manager.Read(message)
		require.NoError(t, err, "waiting for %s", want)
		require.Equal(t, want, string(message[:n]))
	}
	uid, err := strconv.ParseUint(as.Uid, 10, 32)
	require.NoError(t, err)
	gid, err := strconv.ParseUint(as.Gid, 10, 32)
	require.NoError(t, err)

	command := strings.Fields(unit(t, "ExecStart")[0])
	service := exec.Command(command[0], command[1:]...)
	service.Dir = "/"
	service.Env = append(environment(t, "BELFRY_DATABASE_URL="+pgtest.Database(t), "BELFRY_HTTP_ADDR=127.0.0.1:0", "BELFRY_HTTP_DRAIN_DELAY=0s"),
		"NOTIFY_SOCKET="+manager.LocalAddr().String())
	service.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	log := &lockedBuffer{}
	service.Stderr = log
	require.NoError(t, service.Start())
	defer func() { _ = service.Process.Kill() }() // it may have ended
	told("READY=1")
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(log.String())
	call := func(args ...string) string {
		return output(t, "belfry", append(args, "--server", "http://"+address)...)
	}

	call("push", "orders", `{"id": 41}`)
	require.Contains(t, call("pop", "orders", "--auto-ack", "-o", "json"), `41`)
	// A push during maintenance is kept in the state directory, which the user can write to.
	call("maintenance", "push-on", "--yes")
	call("push", "orders", `{"id": 42}`)
	require.Equal(t, "drwx------ belfry belfry", owner(t, "/var/lib/belfry/spool"))
	call("maintenance", "push-off")
	require.Contains(t, call("pop", "orders", "--auto-ack", "--wait", "20s", "-o", "json"), `42`)

	require.NoError(t, service.Process.Signal(syscall.SIGTERM))
	told("STOPPING=1")
	require.NoError(t, service.Wait(), log.String())
}
