// Command release builds the files of a release: an archive for each platform, packages for Debian and Red Hat, a list of
// components (SBOM) for each binary, and checksums. `make release` runs it.
//
// Two builds of the same commit with the same version of Go and of the tools have the same bytes, in any folder: no file has
// the time or the place of the build. The build needs no network if the modules and the tools are there.
package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// release has what the steps of a build need.
type release struct {
	root    string    // the repository
	tools   string    // the folder of nfpm and cyclonedx-gomod
	out     string    // the folder of the result
	stage   string    // a temporary folder
	version string    // as `belfry version` prints it
	at      time.Time // the time of all files, which is the time of the commit
}

// platform is an operating system and an architecture, in the words of Go.
type platform struct{ system, arch string }

// program returns the name of the binary.
func (p platform) program() string {
	if p.system == "windows" {
		return "belfry.exe"
	}
	return "belfry"
}

// name returns the name of the files for a platform, without an extension.
func (r release) name(p platform) string {
	return strings.Join([]string{"belfry", r.version, p.system, p.arch}, "-")
}

// run runs a program of the build in dir. Its output goes to standard error.
func (r release) run(dir string, env []string, program string, args ...string) error {
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stderr, os.Stderr
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+strconv.FormatInt(r.at.Unix(), 10), "GOFLAGS=", "GOWORK=off")
	cmd.Env = append(cmd.Env, env...)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("running %s %s: %w", filepath.Base(program), strings.Join(args, " "), err)
	}
	return nil
}

// build writes all files of the release to r.out.
func (r release) build(platforms []platform) error {
	if err := r.prepare(); err != nil {
		return err
	}
	for _, p := range platforms {
		fmt.Fprintln(os.Stderr, "building", r.name(p))
		if err := r.compile(p); err != nil {
			return err
		}
		if err := r.archive(p); err != nil {
			return err
		}
		if err := r.components(p); err != nil {
			return err
		}
		if p.system == "linux" {
			if err := r.packages(p); err != nil {
				return err
			}
		}
	}
	return r.checksums()
}

// checksums writes SHA256SUMS, in the form that sha256sum reads.
func (r release) checksums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var lines strings.Builder
	for _, entry := range entries {
		sum, err := hash(filepath.Join(r.out, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%x  %s\n", sum, entry.Name())
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(lines.String()), 0o644)
}

func hash(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return sum.Sum(nil), err
}

// parsePlatforms reads a list such as "linux/amd64 windows/arm64".
func parsePlatforms(text string) ([]platform, error) {
	var all []platform
	for _, word := range strings.Fields(text) {
		system, arch, ok := strings.Cut(word, "/")
		if !ok || !slices.Contains([]string{"linux", "darwin", "windows"}, system) {
			return nil, fmt.Errorf("%q is not a platform such as linux/amd64", word)
		}
		all = append(all, platform{system, arch})
	}
	if len(all) == 0 {
		return nil, errors.New("no platform is named: set -platforms")
	}
	return all, nil
}

func run() error {
	var r release
	version := flag.String("version", "", "version, as belfry version prints it")
	names := flag.String("platforms", "", "platforms, such as linux/amd64")
	epoch := flag.Int64("epoch", 0, "time of the commit, in seconds since 1970")
	flag.StringVar(&r.out, "out", "dist", "folder of the result, which is emptied first")
	flag.StringVar(&r.tools, "tools", ".bin", "folder of nfpm and cyclonedx-gomod")
	flag.Parse()
	platforms, err := parsePlatforms(*names)
	if err != nil {
		return err
	}
	if *version == "" || *epoch <= 0 {
		return errors.New("set -version and -epoch")
	}
	r.version, r.at = *version, time.Unix(*epoch, 0).UTC()
	for _, path := range []*string{&r.root, &r.out, &r.tools} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	if err := errors.Join(os.RemoveAll(r.out), os.MkdirAll(r.out, 0o755)); err != nil {
		return err
	}
	if r.stage, err = os.MkdirTemp("", "belfry-release-"); err != nil {
		return err
	}
	return errors.Join(r.build(platforms), os.RemoveAll(r.stage))
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}
