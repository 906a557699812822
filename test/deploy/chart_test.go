//go:build installed

package deploy_test

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
)

// kubeVersion is the version of Kubernetes for which the chart is rendered.
const kubeVersion = "1.33.0"

// flushes is how long a stop may take after http.drain_delay and http.shutdown_timeout: drainTimeout of pkg/app.
const flushes = 15 * time.Second

// run runs a program of .bin in the folder of the repository. It returns its output.
func run(t *testing.T, program string, args ...string) (string, error) {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(root, ".bin", program))
	require.NoError(t, err)
	require.FileExists(t, path, "run make deploy-tools")
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// render renders the chart. It returns the text and its documents.
func render(t *testing.T, args ...string) (string, []document) {
	t.Helper()
	text, err := run(t, "helm", append([]string{"template", "belfry", chart, "--namespace", "belfry", "--kube-version", kubeVersion}, args...)...)
	require.NoError(t, err, text)
	return text, documents(t, []byte(text))
}

// validate checks manifests with kubeconform.
func validate(t *testing.T, files ...string) (string, error) {
	t.Helper()
	return run(t, "kubeconform", append([]string{"-strict", "-summary", "-schema-location", "test/deploy/schemas/{{ .ResourceKind }}.json"}, files...)...)
}

// validateText checks a text with kubeconform.
func validateText(t *testing.T, text string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rendered.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return validate(t, file)
}

// eachValues runs a test with the default values, and with each of the example files.
func eachValues(t *testing.T, test func(t *testing.T, args ...string)) {
	t.Helper()
	t.Run("default", func(t *testing.T) {
		t.Parallel()
		test(t)
	})
	for _, file := range valueFiles(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			test(t, "--values", file)
		})
	}
}

func TestTheChartIsValid(t *testing.T) {
	t.Parallel()
	eachValues(t, func(t *testing.T, args ...string) {
		out, err := run(t, "helm", append([]string{"lint", "--strict", "--kube-version", kubeVersion, chart}, args...)...)
		require.NoError(t, err, out)
		text, found := render(t, args...)
		out, err = validateText(t, text)
		require.NoError(t, err, out)
		require.Contains(t, out, fmt.Sprintf("Valid: %d,", len(found)))
	})
}

// kubeconform must see a member that does not exist, and one that is missing.
func TestTheSchemasAreStrict(t *testing.T) {
	t.Parallel()
	text, _ := render(t)
	for from, to := range map[string]string{
		"terminationGracePeriodSeconds:": "terminationGraceSeconds:", "maxUnavailable: 1\n": "maxUnavailable: true\n", "podSelector:": "podSelectors:",
		"targetPort: http": "targetport: http", "- name: belfry\n": "- \n",
	} {
		require.Contains(t, text, from)
		out, err := validateText(t, strings.Replace(text, from, to, 1))
		require.Error(t, err, "%s %s", to, out)
	}
	example := strings.Replace(string(read(t, "deploy/keda/consumers.yaml")), "pollingInterval:", "pollInterval:", 1)
	out, err := validateText(t, example)
	require.ErrorContains(t, err, "exit status", out)
	require.Contains(t, out, "pollInterval")
}

func TestTheChartRefusesWrongValues(t *testing.T) {
	t.Parallel()
	for _, value := range []string{
		"replicas=3", "shutdown.reserve=5", "config.database.url=postgres://x", "config.auth.secret=s", "config.encryption.key=k", "database.existingSecret=", "migration.by=hand",
		"spool.size=big", "otel.ENDPOINT=x", "podDisruptionBudget.maxUnavailable=0", "image.digest=sha256:1",
	} {
		out, err := run(t, "helm", "template", "belfry", chart, "--kube-version", kubeVersion, "--set", value)
		require.Error(t, err, "%s %s", value, out)
		require.Contains(t, out, "values don't meet the specifications of the schema", value)
	}
	_, err := run(t, "helm", "template", "belfry", chart, "--kube-version", "1.26.0")
	require.Error(t, err)
}

func TestTheManifestsAreRenderedFromTheChart(t *testing.T) {
	t.Parallel()
	fresh := filepath.Join(t.TempDir(), "belfry.yaml")
	out, err := exec.CommandContext(t.Context(), filepath.Join(root, "scripts/manifests"), ".bin/helm", fresh).CombinedOutput()
	require.NoError(t, err, string(out))
	text, err := os.ReadFile(fresh)
	require.NoError(t, err)
	require.Equal(t, string(text), string(read(t, "deploy/kubernetes/belfry.yaml")), "run make manifests")

	files := []string{}
	for _, folder := range []string{"deploy/kubernetes", "deploy/keda"} {
		found, err := filepath.Glob(filepath.Join(root, folder, "*.yaml"))
		require.NoError(t, err)
		for _, file := range found {
			if filepath.Base(file) != "values.yaml" {
				files = append(files, folder+"/"+filepath.Base(file))
			}
		}
	}
	require.Len(t, files, 3)
	out2, err := validate(t, files...)
	require.NoError(t, err, out2)
	require.Equal(t, "belfry", one(t, "deploy/kubernetes/namespace.yaml").text("metadata", "name"))
}

// workload returns the Deployment or the StatefulSet.
func workload(t *testing.T, found []document) document {
	t.Helper()
	all := append(ofKind(found, "Deployment"), ofKind(found, "StatefulSet")...)
	require.Len(t, all, 1)
	return all[0]
}

func ofKind(found []document, kind string) (some []document) {
	for _, d := range found {
		if d.text("kind") == kind {
			some = append(some, d)
		}
	}
	return some
}

// variables returns the plain variables of a container. A variable with a reference has the value "".
func variables(container document) map[string]string {
	found := map[string]string{}
	for _, variable := range container.list("env") {
		found[variable.text("name")] = variable.text("value")
	}
	return found
}

func seconds(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	require.NoError(t, err)
	return d
}

// The pods stop, are probed and are measured as the server expects.
func TestThePodsFitTheServer(t *testing.T) {
	t.Parallel()
	known := settings(t)
	require.Equal(t, ":6632", known["http.addr"])
	eachValues(t, func(t *testing.T, args ...string) {
		_, found := render(t, args...)
		server := workload(t, found)
		pod := server.mapping("spec", "template", "spec")
		container := pod.list("containers")[0]
		env := variables(container)

		grace := time.Duration(pod.number("terminationGracePeriodSeconds")) * time.Second
		drain, timeout := seconds(t, env["BELFRY_HTTP_DRAIN_DELAY"]), seconds(t, env["BELFRY_HTTP_SHUTDOWN_TIMEOUT"])
		require.Greater(t, grace, drain+timeout+flushes, "the pod is killed before it has stopped")
		if len(args) == 0 {
			require.Equal(t, known["http.drain_delay"], env["BELFRY_HTTP_DRAIN_DELAY"])
			require.Equal(t, known["http.shutdown_timeout"], env["BELFRY_HTTP_SHUTDOWN_TIMEOUT"])
			require.Equal(t, 2, server.at("spec", "replicas"))
		}
		period := container.number("readinessProbe", "periodSeconds")
		require.Less(t, time.Duration(period)*time.Second, drain, "a load balancer must notice the drain")

		listens := map[string]string{"http": env["BELFRY_HTTP_ADDR"]}
		probed := "http"
		if env["BELFRY_HTTP_TLS_CERT_FILE"] != "" {
			listens["internal"], probed = env["BELFRY_HTTP_INTERNAL_ADDR"], "internal"
		}
		ports := container.list("ports")
		require.Len(t, ports, len(listens))
		for _, port := range ports {
			require.Equal(t, listens[port.text("name")], ":"+strconv.Itoa(port.number("containerPort")))
		}
		for probe, path := range map[string]string{"livenessProbe": "/livez", "readinessProbe": "/readyz"} {
			require.Equal(t, path, container.text(probe, "httpGet", "path"))
			require.Equal(t, probed, container.text(probe, "httpGet", "port"))
		}
		checkServices(t, found, server, listens, probed)
	})
}

// checkServices checks that each service, policy and monitor finds the pods and their ports.
func checkServices(t *testing.T, found []document, server document, listens map[string]string, probed string) {
	t.Helper()
	labels := server.mapping("spec", "template", "metadata", "labels")
	selects := func(selector any) {
		require.NotEmpty(t, selector)
		require.Subset(t, labels, selector)
	}
	selects(server.at("spec", "selector", "matchLabels"))
	services := map[string]document{}
	for _, service := range ofKind(found, "Service") {
		services[service.text("metadata", "name")] = service
		selects(service.at("spec", "selector"))
		for _, port := range service.list("spec", "ports") {
			require.Contains(t, listens, port.text("targetPort"))
		}
	}
	require.Contains(t, services, "belfry")
	if server.text("kind") == "StatefulSet" {
		require.Contains(t, services, server.text("spec", "serviceName"))
	}
	for _, budget := range ofKind(found, "PodDisruptionBudget") {
		selects(budget.at("spec", "selector", "matchLabels"))
	}
	for _, policy := range ofKind(found, "NetworkPolicy") {
		selects(policy.at("spec", "podSelector", "matchLabels"))
		require.Len(t, policy.list("spec", "ingress")[0].list("ports"), len(listens))
	}
	for _, monitor := range ofKind(found, "ServiceMonitor") {
		endpoint := monitor.list("spec", "endpoints")[0]
		require.Equal(t, "/metrics/prometheus", endpoint.text("path"))
		matched := 0
		for _, service := range services {
			if fmt.Sprint(service.at("metadata", "labels")) == fmt.Sprint(monitor.at("spec", "selector", "matchLabels")) {
				matched++
				port := service.list("spec", "ports")[0]
				require.Equal(t, endpoint.text("port"), port.text("name"))
				require.Equal(t, probed, port.text("targetPort"))
			}
		}
		require.Equal(t, 1, matched, "a second service would count each pod twice")
	}
}

// Belfry accepts the environment and the file of each pod, as it reads them at its start.
func TestTheServerAcceptsItsSettings(t *testing.T) {
	t.Parallel()
	secrets := map[string]string{
		"BELFRY_DATABASE_URL": "postgres://u@db/d", "BELFRY_DATABASE_LISTEN_URL": "postgres://u@db/d",
		"BELFRY_AUTH_SECRET": strings.Repeat("s", 32), "BELFRY_ENCRYPTION_KEY": strings.Repeat("0", 64),
	}
	eachValues(t, func(t *testing.T, args ...string) {
		_, found := render(t, args...)
		for _, owner := range append(ofKind(found, "Job"), workload(t, found)) {
			pod := owner.mapping("spec", "template", "spec")
			options := config.Options{}
			for name, value := range variables(pod.list("containers")[0]) {
				if name == "BELFRY_CONFIG" {
					require.Equal(t, "/etc/belfry/belfry.yaml", value)
					options.File = filepath.Join(t.TempDir(), "belfry.yaml")
					require.NoError(t, os.WriteFile(options.File, []byte(ofKind(found, "ConfigMap")[0].text("data", "belfry.yaml")), 0o600))
					continue
				}
				options.Environ = append(options.Environ, name+"="+cmp.Or(value, secrets[name]))
			}
			loaded, err := config.Load(options)
			require.NoError(t, err)
			require.Empty(t, loaded.Unknown())
			require.NotEmpty(t, loaded.Database.URL.Reveal())
		}
	})
}

// Each pod fits the Pod Security Standard restricted, which the namespace of the manifests demands, and has a read-only root.
func TestThePodsAreRestricted(t *testing.T) {
	t.Parallel()
	eachValues(t, func(t *testing.T, args ...string) {
		_, found := render(t, args...)
		for _, owner := range append(ofKind(found, "Job"), workload(t, found)) {
			pod := owner.mapping("spec", "template", "spec")
			require.Equal(t, true, pod.at("securityContext", "runAsNonRoot"))
			require.Equal(t, 65532, pod.at("securityContext", "runAsUser"))
			require.Equal(t, "RuntimeDefault", pod.text("securityContext", "seccompProfile", "type"))
			require.Equal(t, false, pod["automountServiceAccountToken"])
			for _, container := range pod.list("containers") {
				require.Equal(t, false, container.at("securityContext", "allowPrivilegeEscalation"))
				require.Equal(t, true, container.at("securityContext", "readOnlyRootFilesystem"))
				require.Equal(t, []any{"ALL"}, container.at("securityContext", "capabilities", "drop"))
				require.NotNil(t, container.at("resources", "limits", "memory"))
				for _, variable := range container.list("env") {
					if strings.HasSuffix(variable.text("name"), "_URL") {
						require.NotEmpty(t, variable.text("valueFrom", "secretKeyRef", "name"), "a DSN comes from a secret")
					}
				}
			}
		}
	})
}

// The switches of the chart.
func TestTheSwitchesOfTheChart(t *testing.T) {
	t.Parallel()
	values := func(name string) []document {
		_, found := render(t, "--values", "deploy/helm/values/"+name+".yaml")
		return found
	}
	production := values("production")
	job := ofKind(production, "Job")[0]
	require.Equal(t, "pre-install,pre-upgrade", job.text("metadata", "annotations", "helm.sh/hook"))
	migrate := job.mapping("spec", "template", "spec").list("containers")[0]
	require.Equal(t, []any{"migrate", "up"}, migrate["args"])
	require.Equal(t, "belfry-owner", migrate.list("env")[0].text("valueFrom", "secretKeyRef", "name"))
	stateful := workload(t, production)
	require.Equal(t, "StatefulSet", stateful.text("kind"), "each instance needs a spool of its own")
	require.Len(t, stateful.list("spec", "volumeClaimTemplates"), 1)
	server := stateful.mapping("spec", "template", "spec").list("containers")[0]
	require.Equal(t, "false", variables(server)["BELFRY_DATABASE_MIGRATE_ON_START"])
	spool := document(settings(t)).text("spool.dir")
	require.True(t, strings.HasPrefix(spool, server.list("volumeMounts")[1].text("mountPath")+"/"), spool)
	config := documents(t, []byte(ofKind(production, "ConfigMap")[0].text("data", "belfry.yaml")))[0]
	require.Equal(t, one(t, "deploy/helm/values/production.yaml")["config"], map[string]any(config))

	_, plain := render(t)
	require.Empty(t, ofKind(plain, "Job"))
	require.Equal(t, "Deployment", workload(t, plain).text("kind"))
	require.NotContains(t, variables(workload(t, plain).mapping("spec", "template", "spec").list("containers")[0]), "BELFRY_DATABASE_MIGRATE_ON_START")

	observed := values("observed")
	require.Equal(t, one(t, alerts)["groups"], ofKind(observed, "PrometheusRule")[0].at("spec", "groups"))
	env := variables(workload(t, observed).mapping("spec", "template", "spec").list("containers")[0])
	require.Equal(t, "0.01", env["OTEL_TRACES_SAMPLER_ARG"])
	require.Contains(t, env["OTEL_RESOURCE_ATTRIBUTES"], "k8s.pod.name=$(POD_NAME)")

	longest, body := 600*time.Second, "16m" // the longest wait of a pop, and http.max_body_bytes
	annotations := ofKind(values("ingress"), "Ingress")[0].mapping("metadata", "annotations")
	for _, name := range []string{"proxy-read-timeout", "proxy-send-timeout"} {
		limit, err := strconv.Atoi(annotations.text("nginx.ingress.kubernetes.io/" + name))
		require.NoError(t, err)
		require.Greater(t, time.Duration(limit)*time.Second, longest)
	}
	require.Equal(t, "off", annotations["nginx.ingress.kubernetes.io/proxy-buffering"], "events must arrive at once")
	require.Equal(t, body, annotations["nginx.ingress.kubernetes.io/proxy-body-size"])
	require.Equal(t, "16MiB", settings(t)["http.max_body_bytes"])
}

// The values in the guide can be used as they are.
func TestTheValuesOfTheGuideWork(t *testing.T) {
	t.Parallel()
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(read(t, guide)), -1)
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		file := filepath.Join(t.TempDir(), "values.yaml")
		require.NoError(t, os.WriteFile(file, []byte(block[1]), 0o600))
		text, _ := render(t, "--values", file)
		out, err := validateText(t, text)
		require.NoError(t, err, out)
	}
}
