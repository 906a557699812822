package app

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

// The linker ignores -X for a variable that does not exist. So the test checks that the builds name the right variable.
func TestBuildsSetTheVersion(t *testing.T) {
	t.Parallel()
	require.NotEmpty(t, Version())
	for _, build := range []string{"../../Makefile", "../../Dockerfile"} {
		text, err := os.ReadFile(build)
		require.NoError(t, err)
		require.Contains(t, string(text), "-X github.com/belfry-mq/belfry/pkg/app.linkedVersion=", build)
	}
}

// A build without -ldflags shows the commit that Go recorded.
func TestVersionOfAPlainBuild(t *testing.T) {
	t.Parallel()
	build := func(version string, settings ...string) *debug.BuildInfo {
		info := &debug.BuildInfo{Main: debug.Module{Version: version}}
		for i := 0; i < len(settings); i += 2 {
			info.Settings = append(info.Settings, debug.BuildSetting{Key: settings[i], Value: settings[i+1]})
		}
		return info
	}
	const revision = "365288d1ce903eddac721827f8dd39cd19f5cb9f"
	for _, c := range []struct {
		name string
		info *debug.BuildInfo
		want string
	}{
		{"go install of a version", build("v1.2.3"), "v1.2.3"},
		{"go build in a checkout", build("v0.0.0-20261126124318-365288d1ce90", "vcs.revision", revision, "vcs.modified", "false"), "v0.0.0-20261126124318-365288d1ce90"},
		{"no version", build("(devel)", "-buildmode", "exe", "vcs.revision", revision, "vcs.modified", "false"), "devel-365288d1ce90"},
		{"no version and changed files", build("", "vcs.revision", revision, "vcs.modified", "true"), "devel-365288d1ce90+dirty"},
		{"a short revision", build("(devel)", "vcs.revision", "41"), "devel-41"},
		{"nothing is recorded", build("(devel)", "-buildmode", "exe"), "unknown"},
	} {
		require.Equal(t, c.want, recordedVersion(c.info), c.name)
	}
}
