package devdb

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// repository is a fake Maven repository with one archive. A nil checksum means that the
// file does not exist.
type repository struct {
	archive  []byte
	checksum []byte
	requests atomic.Int32
}

func (r *repository) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.requests.Add(1)
	content := r.archive
	path, isChecksum := strings.CutSuffix(req.URL.Path, ".sha256")
	if isChecksum {
		content = r.checksum
	}
	const prefix = "/io/zonky/test/postgres/embedded-postgres-binaries-"
	if content == nil || !strings.HasPrefix(path, prefix) || !strings.HasSuffix(path, "-"+string(fetchVersion)+".jar") {
		http.NotFound(w, req)
		return
	}
	_, _ = w.Write(content) // an error means that the client has left, and then its test fails
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	var archive bytes.Buffer
	tw := tar.NewWriter(&archive)
	ran := filepath.Join(t.TempDir(), "ran")
	for _, name := range programs {
		script := "#!/bin/sh\ntouch " + ran + "-" + name + "\nexit 1\n"
		require.NoError(t, tw.WriteHeader(&tar.Header{Name: "bin/" + name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(script))}))
		_, err := tw.Write([]byte(script))
		require.NoError(t, err)
	}
	require.NoError(t, tw.Close())
	var jar bytes.Buffer
	zw := zip.NewWriter(&jar)
	file, err := zw.Create("postgres-test.txz")
	require.NoError(t, err)
	_, err = file.Write(storedXZ(archive.Bytes()))
	require.NoError(t, err)
	require.NoError(t, zw.Close())
	sum := sha256.Sum256(jar.Bytes())
	t.Cleanup(func() { require.NoFileExists(t, ran+"-initdb", "the library must not run initdb") })
	return &repository{archive: jar.Bytes(), checksum: []byte(hex.EncodeToString(sum[:]))}
}

// storedXZ writes the xz format with uncompressed data, because the standard library cannot
// write xz. It has one block of LZMA2 chunks and no check.
func storedXZ(data []byte) []byte {
	crc := func(b []byte) []byte { return binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE(b)) }
	pad := func(b []byte) []byte { return append(b, make([]byte, (4-len(b)%4)%4)...) }
	flags := []byte{0, 0} // no check
	out := slices.Concat([]byte("\xFD7zXZ\x00"), flags, crc(flags))

	header := pad([]byte{2, 0, 0x21, 1, 0x16}) // 12 bytes with the CRC; one filter: LZMA2
	block := slices.Concat(header, crc(header))
	for first := true; len(data) > 0; first = false {
		chunk := data[:min(len(data), 1<<16)]
		data = data[len(chunk):]
		control := byte(2)
		if first {
			control = 1 // resets the dictionary
		}
		block = append(block, control)
		block = binary.BigEndian.AppendUint16(block, uint16(len(chunk)-1))
		block = append(block, chunk...)
	}
	block = append(block, 0)
	unpadded := uint64(len(block))
	out = append(out, pad(block)...)

	return append(out, storedIndex(unpadded, uncompressed(block[12:]), crc, pad)...)
}

// uncompressed returns the sum of the sizes of stored chunks.
func uncompressed(chunks []byte) (size uint64) {
	for chunks[0] != 0 {
		n := int(binary.BigEndian.Uint16(chunks[1:])) + 1
		size += uint64(n)
		chunks = chunks[3+n:]
	}
	return size
}

func storedIndex(unpadded, size uint64, crc, pad func([]byte) []byte) []byte {
	index := binary.AppendUvarint(binary.AppendUvarint([]byte{0, 1}, unpadded), size)
	index = pad(index)
	index = append(index, crc(index)...)
	footer := binary.LittleEndian.AppendUint32(nil, uint32(len(index)/4-1))
	footer = append(footer, 0, 0)
	return slices.Concat(index, crc(footer), footer, []byte("YZ"))
}

func fetchFrom(t *testing.T, url string) (fetcher, func()) {
	t.Helper()
	f := fetcher{cache: filepath.Join(t.TempDir(), "cache"), repository: url, log: zap.NewNop()}
	return f, func() {
		t.Helper()
		left, err := os.ReadDir(f.cache)
		require.NoError(t, err)
		require.Empty(t, left, "a failed download leaves nothing")
	}
}

func TestFetchUnpacksOnce(t *testing.T) {
	t.Parallel()
	repo := newRepository(t)
	server := httptest.NewServer(repo)
	t.Cleanup(server.Close)
	f, _ := fetchFrom(t, server.URL)
	// A crash can leave an incomplete folder like this.
	install(t, f.cache, string(fetchVersion)+"/bin", "pg_ctl")

	dir, err := f.fetch(t.Context())
	require.NoError(t, err)
	require.Equal(t, filepath.Join(f.cache, string(fetchVersion), "bin"), dir)
	require.Empty(t, missingPrograms(dir))
	require.EqualValues(t, 2, repo.requests.Load(), "the archive and its checksum")
	left, err := os.ReadDir(f.cache)
	require.NoError(t, err)
	require.Len(t, left, 1, "only the programs are kept")
	for path := dir; path != f.cache; path = filepath.Dir(path) {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o005), info.Mode()&0o005, "another account can reach %s", path)
	}

	server.Close()
	again, err := f.fetch(t.Context())
	require.NoError(t, err, "the second time needs no repository")
	require.Equal(t, dir, again)
}

func TestFetchRefusesAnUnverifiedArchive(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spoil func(*repository)
		want  string
	}{
		"no archive":      {func(r *repository) { r.archive = nil }, ".jar answers 404"},
		"no checksum":     {func(r *repository) { r.checksum = nil }, ".jar.sha256 answers 404"},
		"wrong checksum":  {func(r *repository) { r.checksum[0] ^= 1 }, "checksums do not match"},
		"changed archive": {func(r *repository) { r.archive[100] ^= 1 }, "checksums do not match"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			repo := newRepository(t)
			test.spoil(repo)
			server := httptest.NewServer(repo)
			t.Cleanup(server.Close)
			f, requireEmpty := fetchFrom(t, server.URL)
			_, err := f.fetch(t.Context())
			require.ErrorContains(t, err, test.want)
			requireEmpty()
		})
	}
}

// refusing returns an address that refuses connections. A socket is bound to its port and does not listen, so no other test or
// program can listen there. The port of a closed listener would be free for them.
func refusing(t *testing.T) string {
	t.Helper()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Close(socket)) })
	require.NoError(t, syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name, err := syscall.Getsockname(socket)
	require.NoError(t, err)
	bound, ok := name.(*syscall.SockaddrInet4)
	require.True(t, ok)
	return netip.AddrPortFrom(netip.AddrFrom4(bound.Addr), uint16(bound.Port)).String()
}

func TestFetchReturnsTheReasonWhenTheRepositoryIsUnreachable(t *testing.T) {
	t.Parallel()
	addr := refusing(t)
	f, requireEmpty := fetchFrom(t, "http://"+addr)
	_, err := f.fetch(t.Context())
	require.ErrorContains(t, err, "connection refused")
	require.ErrorContains(t, err, addr)
	requireEmpty()
}

func TestEndOfContextCancelsFetch(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	released := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, 1<<16)) // the download has begun
		_ = http.NewResponseController(w).Flush()
		cancel()
		<-released
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(released) })
	f, requireEmpty := fetchFrom(t, server.URL)
	_, err := f.fetch(ctx)
	require.ErrorIs(t, err, context.Canceled)
	requireEmpty()
}
