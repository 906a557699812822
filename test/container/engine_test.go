//go:build installed

package container_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience is the longest wait for a container.
const patience = 2 * time.Minute

// The names of the images in the Dockerfile and docker-compose.yml, with the name of the registry.
const (
	goImage         = "docker.io/library/golang:1.26.8-bookworm"
	postgresImage   = "docker.io/library/postgres:17.10"
	prometheusImage = "docker.io/prom/prometheus:v3.5.0"
)

// engine is podman with its own storage and networks.
type engine struct {
	t    *testing.T
	root string // of the repository
	env  []string
}

// newEngine returns an engine that has no images and no containers. It removes all of them when the test ends.
func newEngine(t *testing.T) *engine {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "belfry-container-")
	require.NoError(t, err)
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	write := func(name string, lines ...string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
		return path
	}
	e := &engine{t: t, root: root}
	e.env = append(
		os.Environ(),
		"CONTAINERS_STORAGE_CONF="+write("storage.conf", "[storage]", `driver = "overlay"`, `graphroot = "`+dir+`/images"`, `runroot = "`+dir+`/run"`),
		"CONTAINERS_REGISTRIES_CONF="+write("registries.conf", `unqualified-search-registries = ["docker.io"]`, `short-name-mode = "disabled"`),
		"CONTAINERS_CONF="+write("containers.conf", "[containers]", `default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]`,
			"[engine]", `runtime = "runc"`, `cgroup_manager = "cgroupfs"`, `events_logger = "file"`, `tmp_dir = "`+dir+`/tmp"`,
			"[network]", `network_backend = "netavark"`, `network_config_dir = "`+dir+`/networks"`),
		"TMPDIR="+dir, // podman keeps the parts of images here
	)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_, _ = e.tryContext(ctx, "podman", "rm", "--all", "--force", "--time", "0")
		_, _ = e.tryContext(ctx, "podman", "system", "reset", "--force")
		require.NoError(t, os.RemoveAll(dir))
	})
	return e
}

// tryContext runs a command in the folder of the repository. It returns what the command printed.
func (e *engine) tryContext(ctx context.Context, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, name, args...)
	command.Dir, command.Env = e.root, e.env
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	err := command.Run()
	if err != nil {
		return out.String() + errs.String(), err
	}
	return out.String(), nil
}

func (e *engine) try(name string, args ...string) (string, error) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), 10*time.Minute)
	defer cancel()
	return e.tryContext(ctx, name, args...)
}

// run runs a command that must succeed.
func (e *engine) run(name string, args ...string) string {
	e.t.Helper()
	began := time.Now()
	out, err := e.try(name, args...)
	require.NoError(e.t, err, "%s %s:\n%s", name, strings.Join(args, " "), out)
	e.t.Logf("%s %s: %.1f s", name, strings.Join(args[:min(2, len(args))], " "), time.Since(began).Seconds())
	return strings.TrimSpace(out)
}

// podman runs a command of podman that must succeed.
func (e *engine) podman(args ...string) string {
	e.t.Helper()
	return e.run("podman", args...)
}

// makeBases makes the images that stand in for those of the registry.
func (e *engine) makeBases() {
	e.t.Helper()
	base := filepath.Join(e.t.TempDir(), "base")
	e.run("debootstrap", "--variant=minbase", "--include=ca-certificates,postgresql", "bookworm", base, "http://deb.debian.org/debian")
	entry, err := os.ReadFile("testdata/postgres-entrypoint")
	require.NoError(e.t, err)
	require.NoError(e.t, os.WriteFile(filepath.Join(base, "usr/local/bin/postgres-entrypoint"), entry, 0o755))
	binaries, err := filepath.Glob(filepath.Join(base, "usr/lib/postgresql/*/bin"))
	require.NoError(e.t, err)
	require.Len(e.t, binaries, 1)
	archive := base + ".tar"
	e.run("tar", "-C", base, "-cf", archive, ".")
	e.podman("import", "--change", "ENV PATH=/usr/local/go/bin:/usr/local/bin:"+strings.TrimPrefix(binaries[0], base)+":/usr/sbin:/usr/bin:/sbin:/bin",
		"--change", "ENV PGDATA=/var/lib/postgresql/data", "--change", "VOLUME /var/lib/postgresql/data",
		"--change", `ENTRYPOINT ["postgres-entrypoint"]`, "--change", "STOPSIGNAL SIGINT", archive, postgresImage)
	e.podman("tag", postgresImage, goImage)
	require.NoError(e.t, os.RemoveAll(base))
	require.NoError(e.t, os.Remove(archive))
	e.makePrometheus()
}

// makePrometheus makes an image of the Prometheus of the machine, with the arguments of the real image.
func (e *engine) makePrometheus() {
	e.t.Helper()
	folder := e.t.TempDir()
	program, err := exec.LookPath("prometheus")
	require.NoError(e.t, err)
	e.run("cp", program, filepath.Join(folder, "prometheus"))
	file := "FROM " + postgresImage + "\nCOPY prometheus /bin/\nENTRYPOINT [\"prometheus\"]\n" +
		`CMD ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]`
	require.NoError(e.t, os.WriteFile(filepath.Join(folder, "Dockerfile"), []byte(file), 0o600))
	e.podman("build", "--format=docker", "--pull=never", "--tag", prometheusImage, folder)
}

// build builds the Dockerfile with the toolchain, the modules and the cache of the machine.
func (e *engine) build(version, tag string) {
	e.t.Helper()
	e.run("go", "mod", "download")
	folder := func(name string) string { return e.run("go", "env", name) }
	e.podman("build", "--format=docker", "--pull=never", "--layers=false", "--build-arg", "VERSION="+version, "--tag", tag,
		"--volume", folder("GOROOT")+":/usr/local/go:ro", "--volume", folder("GOCACHE")+":/root/.cache/go-build",
		"--volume", folder("GOMODCACHE")+":/root/go/pkg/mod", "--env", "GOPROXY=file:///root/go/pkg/mod/cache/download", "--env", "GOSUMDB=off", ".")
}
