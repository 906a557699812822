package app

import "runtime/debug"

// linkedVersion is set by the build: -ldflags "-X github.com/belfry-mq/belfry/pkg/app.linkedVersion=v1.2.3".
var linkedVersion string

// Version returns the version set by the build. Without it, Version returns the version that
// Go recorded: of `go install`, or of the commit of a checkout.
func Version() string {
	if linkedVersion != "" {
		return linkedVersion
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "unknown"
}
