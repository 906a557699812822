package main

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// linked is the variable of the binary that has the version.
const linked = "github.com/belfry-mq/belfry/pkg/app.linkedVersion"

// copied lists the files of the repository that the stage gets, by their name in the stage.
var copied = []struct{ from, to string }{
	{"LICENSE", "LICENSE"},
	{"THIRD_PARTY_NOTICES", "THIRD_PARTY_NOTICES"},
	{"config/belfry.yaml", "settings.yaml"},
	{"deploy/systemd/belfry.service", "systemd/belfry.service"},
	{"deploy/packages/nfpm.yaml", "packages/nfpm.yaml"},
	{"deploy/packages/belfry.yaml", "packages/belfry.yaml"},
	{"deploy/packages/belfry.env", "packages/belfry.env"},
	{"deploy/packages/preinstall.sh", "packages/preinstall.sh"},
	{"deploy/packages/postinstall.sh", "packages/postinstall.sh"},
	{"deploy/packages/preremove.sh", "packages/preremove.sh"},
	{"deploy/packages/postremove.sh", "packages/postremove.sh"},
}

// flags returns the flags of go build. Without -trimpath and with -buildvcs, the binary would contain the folder and the state
// of the checkout.
func (r release) flags(tags string) []string {
	return []string{"-tags", tags, "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X " + linked + "=" + r.version}
}

// prepare fills the stage with the files that all platforms share.
func (r release) prepare() error {
	for _, file := range copied {
		if err := copyFile(filepath.Join(r.root, filepath.FromSlash(file.from)), filepath.Join(r.stage, filepath.FromSlash(file.to))); err != nil {
			return err
		}
	}
	pages := append(append([]string{"run"}, r.flags("release pages")...), "./cmd/belfry", "pages", r.stage)
	if err := r.run(r.root, []string{"CGO_ENABLED=0"}, "go", pages...); err != nil {
		return err
	}
	plain, err := filepath.Glob(filepath.Join(r.stage, "man", "*.1"))
	if err != nil || len(plain) == 0 {
		return fmt.Errorf("no manual page was written: %w", err)
	}
	for _, page := range plain {
		if err := compress(page); err != nil {
			return err
		}
	}
	return nil
}

// compile builds the binary of a platform in the stage.
func (r release) compile(p platform) error {
	build := append(append([]string{"build"}, r.flags("release")...), "-o", filepath.Join(r.stage, p.program()), "./cmd/belfry")
	return r.run(r.root, []string{"CGO_ENABLED=0", "GOOS=" + p.system, "GOARCH=" + p.arch}, "go", build...)
}

// components writes the list of the modules in a binary, as CycloneDX.
func (r release) components(p platform) error {
	return r.run(r.stage, nil, filepath.Join(r.tools, "cyclonedx-gomod"), "bin", "-json", "-std", "-noserial", "-notimestamp",
		"-version", r.version, "-output", filepath.Join(r.out, r.name(p)+".cdx.json"), filepath.Join(r.stage, p.program()))
}

// packages builds the packages of a platform. Their file names have no ~, because GitHub would replace it.
func (r release) packages(p platform) error {
	env := []string{"ARCH=" + p.arch, "PACKAGE_VERSION=" + packageVersion(r.version)}
	for _, kind := range []string{"deb", "rpm"} {
		err := r.run(r.stage, env, filepath.Join(r.tools, "nfpm"), "package",
			"--config", "packages/nfpm.yaml", "--packager", kind, "--target", filepath.Join(r.out, r.name(p)+"."+kind))
		if err != nil {
			return err
		}
	}
	return nil
}

// packageVersion returns the version of a package. `git describe` prints v1.2.3 for a tag, v1.2.3-rc.1 for a tag before a
// release, and v1.2.3-4-g0abcdef for a later commit. Packages put a version with ~ before, and one with + after the release. A
// commit without a tag is older than every release.
func packageVersion(version string) string {
	version, dirty := strings.CutSuffix(version, "-dirty")
	number, tagged := strings.CutPrefix(version, "v")
	if !tagged || number == "" || number[0] < '0' || number[0] > '9' {
		number = "0~" + version
	}
	if parts := strings.Split(number, "-"); tagged && len(parts) > 2 && strings.HasPrefix(parts[len(parts)-1], "g") {
		last := len(parts) - 2
		number = strings.Join(parts[:last], "-") + "+" + parts[last] + "." + parts[last+1]
	}
	number = strings.Replace(number, "-", "~", 1)
	if dirty {
		number += "+dirty"
	}
	return strings.ReplaceAll(number, "-", ".")
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o644)
}

// compress writes path.gz. The header of the file has no name and no time.
func compress(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return create(path+".gz", func(out io.Writer) error {
		zipped, err := gzip.NewWriterLevel(out, gzip.BestCompression)
		if err != nil {
			return err
		}
		if _, err := zipped.Write(content); err != nil {
			return err
		}
		return zipped.Close()
	})
}
