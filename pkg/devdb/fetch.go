package devdb

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/ulikunitz/xz"
	"go.uber.org/zap"
)

const (
	mavenCentral = "https://repo1.maven.org/maven2"
	fetchVersion = "17.5.0"
)

// fetcher downloads the programs of Postgres from a Maven repository into cache, one folder
// per version. github.com/zonkyio/embedded-postgres-binaries publishes the archives: a .jar
// with one .txz in it.
type fetcher struct {
	cache      string
	repository string
	log        *zap.Logger
}

// fetch returns the folder with the programs. The first time, it downloads them.
func (f fetcher) fetch(ctx context.Context) (string, error) {
	home := filepath.Join(f.cache, fetchVersion)
	binDir := filepath.Join(home, "bin")
	if len(missingPrograms(binDir)) == 0 {
		return binDir, nil
	}
	if err := os.MkdirAll(f.cache, 0o755); err != nil {
		return "", fmt.Errorf("creating the folder for Postgres: %w", err)
	}
	// The work folder is renamed when it is complete. A crash or a second process that
	// downloads at the same time must not leave an incomplete Postgres.
	work, err := os.MkdirTemp(f.cache, "fetch-")
	if err != nil {
		return "", fmt.Errorf("creating the folder for Postgres: %w", err)
	}
	f.log.Info("fetching Postgres once",
		zap.String("version", fetchVersion), zap.String("from", f.repository), zap.String("to", home))
	if err = f.extract(ctx, work); err != nil {
		err = fmt.Errorf("fetching Postgres %s from %s: %w", fetchVersion, f.repository, err)
	} else {
		err = moveIntoPlace(work, home)
	}
	return binDir, errors.Join(err, os.RemoveAll(work))
}

// moveIntoPlace renames the extracted folder to home, unless another process has done so.
func moveIntoPlace(from, home string) error {
	if len(missingPrograms(filepath.Join(home, "bin"))) == 0 {
		return nil
	}
	// Another account than the owner of the folder may run the programs.
	err := errors.Join(os.Chmod(from, 0o755), os.RemoveAll(home))
	if err == nil {
		err = os.Rename(from, home)
	}
	if err != nil {
		return fmt.Errorf("putting Postgres in place: %w", err)
	}
	return nil
}

// extract downloads the archive, verifies its checksum and unpacks it into dir.
func (f fetcher) extract(ctx context.Context, dir string) error {
	name := "embedded-postgres-binaries-" + platform()
	url := fmt.Sprintf("%s/io/zonky/test/postgres/%s/%s/%s-%s.jar",
		strings.TrimSuffix(f.repository, "/"), name, fetchVersion, name, fetchVersion)
	jar, err := download(ctx, url)
	if err != nil {
		return err
	}
	checksum, err := download(ctx, url+".sha256")
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(jar); strings.TrimSpace(string(checksum)) != hex.EncodeToString(sum[:]) {
		return fmt.Errorf("the checksums do not match: %s has %x, and the repository names %q", url, sum, checksum)
	}
	archive, err := zip.NewReader(bytes.NewReader(jar), int64(len(jar)))
	if err != nil {
		return fmt.Errorf("reading %s: %w", url, err)
	}
	for _, file := range archive.File {
		if path.Ext(file.Name) == ".txz" {
			if err := unpack(file, dir); err != nil {
				return fmt.Errorf("unpacking %s of %s: %w", file.Name, url, err)
			}
		}
	}
	if missing := missingPrograms(filepath.Join(dir, "bin")); len(missing) > 0 {
		return fmt.Errorf("%s lacks %s", url, strings.Join(missing, ", "))
	}
	return nil
}

// platform returns the system and the architecture in the names of the archives.
func platform() string {
	name := runtime.GOOS + "-" + runtime.GOARCH
	switch runtime.GOARCH {
	case "arm64":
		name += "v8"
	case "arm":
		name += "32v7"
	}
	if _, err := os.Stat("/etc/alpine-release"); err == nil {
		name += "-alpine"
	}
	return name
}

// download returns the content of a file on the web, about 30 MB for the archive.
func download(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: 20 * time.Second, ResponseHeaderTimeout: 30 * time.Second,
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return nil, err // net/http names the URL and the cause
	}
	defer func() { _ = resp.Body.Close() }() // read completely or abandoned
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", url, resp.Status)
	}
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("downloading %s: %w", url, err)
	}
	return content, nil
}

// unpack writes the files of a .txz archive into dir. The root refuses names outside of it.
func unpack(file *zip.File, dir string) error {
	packed, err := file.Open()
	if err != nil {
		return err
	}
	defer func() { _ = packed.Close() }() // read only
	plain, err := xz.NewReader(packed)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // only a handle of the folder
	for archive := tar.NewReader(plain); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = unpackOne(root, header, archive)
		}
		if err != nil {
			return err
		}
	}
}

func unpackOne(root *os.Root, header *tar.Header, content io.Reader) error {
	name := path.Clean(header.Name)
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	switch header.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, 0o755)
	case tar.TypeSymlink:
		return root.Symlink(header.Linkname, name)
	case tar.TypeReg:
		file, err := root.OpenFile(name, os.O_CREATE|os.O_WRONLY, header.FileInfo().Mode().Perm())
		if err != nil {
			return err
		}
		_, err = io.Copy(file, content)
		return errors.Join(err, file.Close())
	default:
		return nil // the archives hold nothing else
	}
}
