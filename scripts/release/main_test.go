package main

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestVersionsOfPackagesAreInTheOrderOfTheCommits(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"v1.2.3":                  "1.2.3",
		"v1.2.3-rc.1":             "1.2.3~rc.1",
		"v1.2.3-4-g0abcdef":       "1.2.3+4.g0abcdef",
		"v1.2.3-rc.1-4-g0abcdef":  "1.2.3~rc.1+4.g0abcdef",
		"v1.2.3-dirty":            "1.2.3+dirty",
		"0abcdef":                 "0~0abcdef",
		"0abcdef-dirty":           "0~0abcdef+dirty",
		"dev":                     "0~dev",
		"v1.2.3-4-g0abcdef-dirty": "1.2.3+4.g0abcdef+dirty",
	} {
		require.Equal(t, want, packageVersion(version), version)
	}
}

func TestUnknownPlatformsAreRefused(t *testing.T) {
	t.Parallel()
	_, err := parsePlatforms("linux/amd64 plan9/amd64")
	require.ErrorContains(t, err, "plan9/amd64")
	_, err = parsePlatforms(" ")
	require.ErrorContains(t, err, "no platform")
}

// The package tests read the archive for Linux. This test reads the one for Windows.
func TestTheArchiveForWindows(t *testing.T) {
	t.Parallel()
	r := release{stage: t.TempDir(), version: "v1.0.0", at: time.Unix(1700000000, 0).UTC()}
	for _, name := range []string{"belfry.exe", "LICENSE", "THIRD_PARTY_NOTICES", "settings.yaml", "man/belfry.1", "completions/belfry.ps1"} {
		path := filepath.Join(r.stage, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(t, os.WriteFile(path, []byte(name), 0o600))
	}
	p := platform{"windows", "amd64"}
	entries, err := r.entries(p)
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, r.writeZip(&out, r.name(p), entries))
	archive, err := zip.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
	require.NoError(t, err)
	var names []string
	for _, f := range archive.File {
		require.Equal(t, r.at, f.Modified.UTC())
		names = append(names, f.Name)
	}
	const folder = "belfry-v1.0.0-windows-amd64/"
	require.Equal(t, []string{
		folder + "LICENSE", folder + "THIRD_PARTY_NOTICES", folder + "belfry.exe", folder + "belfry.yaml",
		folder + "completions/belfry.ps1", folder + "man/belfry.1",
	}, names)
}
