package certificate_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/belfry-mq/belfry/pkg/access/certificate"
	"github.com/belfry-mq/belfry/test/testcert"
)

// fixture has the files of a server and a clock.
type fixture struct {
	t     *testing.T
	ca    *testcert.CA
	dir   string
	files certificate.Files
	time  time.Time
	logs  *observer.ObservedLogs
	log   *zap.Logger
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	dir := t.TempDir()
	return &fixture{
		t: t, ca: testcert.NewCA(t), dir: dir, time: time.Now(), logs: logs, log: zap.New(core),
		files: certificate.Files{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")},
	}
}

func (f *fixture) pair(serial int64, left time.Duration) testcert.Pair {
	f.t.Helper()
	return f.ca.Pair(f.t, serial, pkix.Name{CommonName: "server"}, f.time.Add(left))
}

func (f *fixture) write(cert, key []byte) {
	f.t.Helper()
	testcert.Write(f.t, f.dir, "tls.crt", cert)
	testcert.Write(f.t, f.dir, "tls.key", key)
}

func (f *fixture) open() (*certificate.Source, error) {
	return certificate.Open(f.files, func() time.Time { return f.time }, f.log)
}

// serial returns the serial number of the certificate that a handshake uses.
func (f *fixture) serial(s *certificate.Source) int64 {
	f.t.Helper()
	config, err := s.Config().GetConfigForClient(&tls.ClientHelloInfo{})
	require.NoError(f.t, err)
	parsed, err := x509.ParseCertificate(config.Certificates[0].Certificate[0])
	require.NoError(f.t, err)
	return parsed.SerialNumber.Int64()
}

func TestUnusableFilesAreNamed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first, second := f.pair(1, time.Hour), f.pair(2, time.Hour)
	_, err := f.open()
	require.ErrorContains(t, err, "http.tls_cert_file")
	require.ErrorContains(t, err, f.files.Cert)
	for _, c := range [][2][]byte{{first.Cert, second.Key}, {[]byte("nothing"), first.Key}, {first.Cert, nil}, {first.Key, first.Cert}} {
		f.write(c[0], c[1])
		_, err = f.open()
		require.ErrorContains(t, err, f.files.Cert)
		require.ErrorContains(t, err, f.files.Key)
	}
	f.write(first.Cert, first.Key)
	f.files.ClientCA = testcert.Write(t, f.dir, "ca.crt", []byte("nothing"))
	_, err = f.open()
	require.ErrorContains(t, err, f.files.ClientCA+" (http.tls_client_ca_file)")
}

func TestChangedFilesAreUsed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first, second := f.pair(1, time.Hour), f.pair(2, 2*time.Hour)
	f.write(first.Cert, first.Key)
	s, err := f.open()
	require.NoError(t, err)
	require.EqualValues(t, 1, f.serial(s))
	require.WithinDuration(t, f.time.Add(time.Hour), s.Expires(), time.Second)

	f.write(second.Cert, second.Key)
	require.EqualValues(t, 1, f.serial(s), "the files are not read at each handshake")
	f.time = f.time.Add(2 * time.Second)
	require.EqualValues(t, 2, f.serial(s))
	require.Equal(t, 1, f.logs.FilterMessageSnippet("were read again").Len())

	f.write(first.Cert, second.Key) // the key is not the key of this certificate
	for range 3 {
		f.time = f.time.Add(2 * time.Second)
		require.EqualValues(t, 2, f.serial(s), "the previous files stay in use")
	}
	require.Equal(t, 1, f.logs.FilterLevelExact(zap.ErrorLevel).Len(), "one failure is logged once")
	f.write(first.Cert, first.Key)
	f.time = f.time.Add(2 * time.Second)
	require.WithinDuration(t, f.time.Add(time.Hour), s.Expires(), time.Minute, "Expires reads the changed files too")
	require.EqualValues(t, 1, f.serial(s))
}

func TestExpiredCertificateIsServedWithAWarning(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	old := f.pair(1, -time.Hour)
	f.write(old.Cert, old.Key)
	s, err := f.open()
	require.NoError(t, err)
	require.EqualValues(t, 1, f.serial(s))
	require.Equal(t, 1, f.logs.FilterMessageSnippet("has expired").Len())
}
