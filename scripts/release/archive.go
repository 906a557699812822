package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
)

// entry is a file of an archive.
type entry struct {
	name string // with slashes, below the folder of the archive
	from string
	mode int64
}

// entries lists the files of the archive of a platform, sorted by name.
func (r release) entries(p platform) ([]entry, error) {
	all := []entry{{p.program(), filepath.Join(r.stage, p.program()), 0o755}}
	for name, from := range map[string]string{"LICENSE": "LICENSE", "THIRD_PARTY_NOTICES": "THIRD_PARTY_NOTICES", "belfry.yaml": "settings.yaml"} {
		all = append(all, entry{name, filepath.Join(r.stage, from), 0o644})
	}
	for _, pattern := range []string{"man/*.1", "completions/*"} {
		found, err := filepath.Glob(filepath.Join(r.stage, filepath.FromSlash(pattern)))
		if err != nil {
			return nil, err
		}
		for _, from := range found {
			all = append(all, entry{path.Join(path.Dir(pattern), filepath.Base(from)), from, 0o644})
		}
	}
	slices.SortFunc(all, func(a, b entry) int {
		if a.name < b.name {
			return -1
		}
		return 1
	})
	return all, nil
}

// archive writes the archive of a platform: a zip for Windows, and a tar.gz for other systems. All files are in one folder.
func (r release) archive(p platform) error {
	all, err := r.entries(p)
	if err != nil {
		return err
	}
	target, write, folder := filepath.Join(r.out, r.name(p)), r.writeTar, r.name(p)
	if p.system == "windows" {
		target, write = target+".zip", r.writeZip
	} else {
		target += ".tar.gz"
	}
	return create(target, func(out io.Writer) error { return write(out, folder, all) })
}

// writeTar writes a tar.gz. Owner and time do not depend on the machine.
func (r release) writeTar(out io.Writer, folder string, all []entry) error {
	zipped, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(zipped)
	for _, e := range all {
		content, err := os.ReadFile(e.from)
		if err != nil {
			return err
		}
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: path.Join(folder, e.name), Size: int64(len(content)), Mode: e.mode, ModTime: r.at, Format: tar.FormatUSTAR,
		}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(content); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), zipped.Close())
}

// writeZip writes a zip. The time does not depend on the machine.
func (r release) writeZip(out io.Writer, folder string, all []entry) error {
	archive := zip.NewWriter(out)
	for _, e := range all {
		header := &zip.FileHeader{Name: path.Join(folder, e.name), Method: zip.Deflate, Modified: r.at}
		header.SetMode(os.FileMode(e.mode)) //nolint:gosec // it is a constant of entries
		to, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(e.from)
		if err != nil {
			return err
		}
		if _, err := to.Write(content); err != nil {
			return err
		}
	}
	return archive.Close()
}

// create writes a file and closes it.
func create(name string, write func(out io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
