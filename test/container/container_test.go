//go:build installed

package container_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/httpcall"
)

// version is the version of the image.
const version = "v0.0.0-container"

// The name of the project, and of its image and containers.
const (
	project           = "belfrytest"
	projectImage      = "localhost/" + project + "_belfry"
	belfryContainer   = project + "_belfry_1"
	postgresContainer = project + "_postgres_1"
)

// The addresses of Belfry and of Prometheus, with the ports that the test gives to Compose.
const (
	address           = "http://127.0.0.1:16632"
	prometheusAddress = "http://127.0.0.1:19090"
)

func TestImageAndCompose(t *testing.T) {
	e := newEngine(t)
	e.makeBases()
	e.build(version, projectImage)
	t.Run("the image has only the binary", func(t *testing.T) { e.with(t).imageHasOnlyTheBinary() })
	e.env = append(e.env, "POSTGRES_PASSWORD=secret", "HTTP_PORT=16632", "PROMETHEUS_PORT=19090")
	t.Run("the stack keeps its messages", func(t *testing.T) { e.with(t).stackKeepsItsMessages() })
	t.Run("prometheus reads the metrics", func(t *testing.T) { e.with(t).prometheusReadsTheMetrics() })
}

// with returns the engine for a part of the test.
func (e *engine) with(t *testing.T) *engine {
	t.Helper()
	part := *e
	part.t = t
	return &part
}

func (e *engine) imageHasOnlyTheBinary() {
	require.Contains(e.t, e.podman("run", "--rm", "--read-only", "--network=none", projectImage, "version"), version)
	out, err := e.try("podman", "run", "--rm", "--entrypoint", "/bin/sh", projectImage, "-c", "true")
	require.Error(e.t, err, out)
	id := e.podman("create", projectImage)
	files := e.run("bash", "-c", "podman export "+id+" | tar -tv --numeric-owner | grep -v '^d'")
	e.podman("rm", id)
	var names []string
	for line := range strings.Lines(files) {
		fields := strings.Fields(line)
		name := fields[5]
		if !strings.HasPrefix(name, "etc/") && !strings.HasPrefix(name, "dev/") && !strings.HasPrefix(name, "run/") {
			names = append(names, name)
		}
	}
	require.ElementsMatch(e.t, []string{"belfry", "LICENSE", "THIRD_PARTY_NOTICES"}, names, files)
	require.Contains(e.t, files, "etc/ssl/certs/ca-certificates.crt")

	var images []struct {
		Config struct {
			User         string
			ExposedPorts map[string]any
			Entrypoint   []string
		}
		HealthCheck struct{ Test []string }
	}
	require.NoError(e.t, json.Unmarshal([]byte(e.podman("inspect", projectImage)), &images))
	require.Equal(e.t, "65532:65532", images[0].Config.User)
	require.Contains(e.t, images[0].Config.ExposedPorts, "6632/tcp")
	require.Equal(e.t, []string{"/belfry"}, images[0].Config.Entrypoint)
	require.Equal(e.t, []string{"CMD", "/belfry", "health", "--live"}, images[0].HealthCheck.Test)
}

// compose runs a command of docker-compose.yml.
func (e *engine) compose(args ...string) {
	e.t.Helper()
	e.run("podman-compose", append([]string{"-p", project}, args...)...)
}

func (e *engine) stackKeepsItsMessages() {
	e.compose("up", "-d")
	e.untilHealthy()
	require.Equal(e.t, []string{"HUSER", "65532"}, strings.Fields(e.podman("top", belfryContainer, "huser")))

	e.push("q", "1")
	for _, name := range []string{belfryContainer, postgresContainer} {
		e.podman("kill", "--signal=KILL", name)
	}
	e.compose("up", "-d")
	e.untilHealthy()
	e.push("q", "2")
	require.Equal(e.t, []string{"1", "2"}, e.pop("q"))

	e.call(http.MethodPost, "/api/v1/system/maintenance", `{"enabled": true}`)
	require.Contains(e.t, e.push("q", "3"), `"buffered"`) // the message is in the volume of Belfry
	e.podman("kill", "--signal=KILL", belfryContainer)
	e.compose("down") // removes the containers, and keeps the volumes
	e.compose("up", "-d")
	e.untilHealthy()
	e.call(http.MethodPost, "/api/v1/system/maintenance", `{"enabled": false}`)
	require.Equal(e.t, []string{"3"}, e.pop("q"))

	e.stopsWithinItsDrain()
	e.compose("down", "-v")
	require.Empty(e.t, e.podman("volume", "ls", "--quiet"))
}

// With compose.observe.yml, Prometheus reads the metrics of Belfry and evaluates the alert rules. The test has no images of
// Grafana, the collector and Jaeger.
func (e *engine) prometheusReadsTheMetrics() {
	files := []string{"-f", "docker-compose.yml", "-f", "compose.observe.yml"}
	e.compose(append(files, "up", "-d", "postgres", "belfry", "prometheus")...)
	get := func(target string) string {
		reply, err := httpcall.Send(e.t.Context(), http.DefaultClient, prometheusAddress, httpcall.Call{Method: http.MethodGet, Target: target})
		if err != nil {
			return err.Error() // Prometheus may still start
		}
		return string(reply.Raw)
	}
	for _, expression := range []string{`up{job="belfry"} == 1`, `belfry_listener_garbage_total`} {
		require.Eventually(e.t, func() bool {
			return strings.Contains(get("/api/v1/query?query="+url.QueryEscape(expression)), `"job":"belfry"`)
		}, patience, time.Second, expression)
	}
	require.Eventually(e.t, func() bool { // a rule that is not evaluated yet has the health unknown
		rules := get("/api/v1/rules")
		return strings.Contains(rules, `"health":"ok"`) && !strings.Contains(rules, `"health":"unknown"`) && !strings.Contains(rules, `"health":"err"`)
	}, patience, time.Second)
	e.compose(append(files, "down", "-v")...)
}

// A waiting request is answered when the container stops. The process ends with exit code 0 before it is killed.
func (e *engine) stopsWithinItsDrain() {
	answered := make(chan int, 1)
	go func() {
		reply, err := httpcall.Send(e.t.Context(), http.DefaultClient, address, httpcall.Call{Method: http.MethodGet, Target: "/api/v1/pop/queue/q?wait=true&timeout=60000"})
		if err != nil {
			reply.Status = 0
		}
		answered <- reply.Status
	}()
	require.Eventually(e.t, func() bool { return e.waiting() == 1 }, patience, 50*time.Millisecond)
	e.podman("stop", belfryContainer)
	require.Equal(e.t, "0", e.podman("inspect", "--format", "{{.State.ExitCode}}", belfryContainer))
	require.Equal(e.t, http.StatusNoContent, <-answered)
}

// waiting returns the number of waiting requests.
func (e *engine) waiting() int {
	e.t.Helper()
	var health struct{ Waiting int }
	require.NoError(e.t, json.Unmarshal(e.call(http.MethodGet, "/health", ""), &health))
	return health.Waiting
}

// untilHealthy waits until the health checks of docker-compose.yml succeed. Podman runs them only with systemd.
func (e *engine) untilHealthy() {
	e.t.Helper()
	for _, check := range [][]string{
		{postgresContainer, "pg_isready", "-h", "127.0.0.1", "-U", "belfry", "-d", "belfry"}, {belfryContainer, "/belfry", "health"},
	} {
		var out string
		require.Eventually(e.t, func() (ok bool) {
			var err error
			out, err = e.try("podman", append([]string{"exec"}, check...)...)
			return err == nil
		}, patience, 200*time.Millisecond, "%v", check)
		e.t.Logf("%v: %s", check, out)
	}
}

// call sends a request that must succeed.
func (e *engine) call(method, target, body string) []byte {
	e.t.Helper()
	reply, err := httpcall.Send(e.t.Context(), http.DefaultClient, address, httpcall.Call{Method: method, Target: target, Body: body})
	require.NoError(e.t, err)
	require.Less(e.t, reply.Status, 300, "%s %s: %s", method, target, reply.Raw)
	return reply.Raw
}

// push pushes a message, and returns the answer.
func (e *engine) push(queue, payload string) string {
	e.t.Helper()
	return string(e.call(http.MethodPost, "/api/v1/push", `{"items": [{"queue": "`+queue+`", "payload": `+payload+`}]}`))
}

// pop pops and acks all messages of a queue, and returns their payloads.
func (e *engine) pop(queue string) (payloads []string) {
	e.t.Helper()
	var found struct {
		Messages []struct{ Data json.RawMessage }
	}
	raw := e.call(http.MethodGet, "/api/v1/pop/queue/"+queue+"?batch=10&wait=true&timeout=30000&autoAck=true", "")
	require.NoError(e.t, json.Unmarshal(raw, &found), "%s", raw)
	for _, m := range found.Messages {
		payloads = append(payloads, string(m.Data))
	}
	return payloads
}
