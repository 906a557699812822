package app

import "runtime/debug"

// linkedVersion is set by the build: -ldflags "-X github.com/belfry-mq/belfry/pkg/app.linkedVersion=v1.2.3".
var linkedVersion string

// Version returns the version set by the build. If the build set none, Version returns what Go recorded.
func Version() string {
	if linkedVersion != "" {
		return linkedVersion
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return recordedVersion(info)
}

// recordedVersion returns the version of `go install`, or else the commit of a checkout. It is "unknown" if Go recorded neither,
// for example with -buildvcs=false or in a worktree of git.
func recordedVersion(info *debug.BuildInfo) string {
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	revision, changed := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+dirty"
		}
	}
	if revision == "" {
		return "unknown"
	}
	return "devel-" + revision + changed
}
