package main

import (
	"crypto/x509/pkix"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/testcert"
)

// This test requires that `belfry config --check` and `belfry serve` refuse the same settings with the same text,
// before they connect to the database.
func TestConfigCheckRefusesSettingsThatServeRefuses(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	write := func(name string, content []byte) { require.NoError(t, os.WriteFile(in(name), content, 0o600)) }
	ca := testcert.NewCA(t)
	for i, names := range [][2]string{{"cert", "key"}, {"certOfOther", "other"}} {
		pair := ca.Pair(t, int64(i+2), pkix.Name{CommonName: "belfry"}, time.Now().Add(time.Hour))
		write(names[0], pair.Cert)
		write(names[1], pair.Key)
	}
	write("text", []byte("not PEM"))
	tls := func(cert, key, more string) string {
		return fmt.Sprintf("http: {addr: '127.0.0.1:0', tls_cert_file: %s, tls_key_file: %s%s}\n%s", in(cert), in(key), more, someDatabase)
	}
	for name, c := range map[string]struct{ file, want string }{
		"no database":                         {"http: {addr: '127.0.0.1:0'}", "no database is named"},
		"a database of another kind":          {"database: {url: 'mysql://u:geheim@h/d'}", "reading database.url: "},
		"two URLs of another kind":            {"database: {url: 'mysql://u@h/d', listen_url: 'mysql://u@h/d'}", "reading database.listen_url: "},
		"options of a pool":                   {"database: {url: 'postgres://u@h/d?pool_max_conns=3'}", "pool_max_conns is no option of the URL"},
		"no CA of the database":               {"database: {url: 'postgres://u@h/d?sslmode=verify-full&sslrootcert=" + in("none") + "'}", "reading database.url: "},
		"no certificate":                      {tls("none", "key", ""), "reading http.tls_cert_file: "},
		"no key":                              {tls("cert", "none", ""), "reading http.tls_key_file: "},
		"no CA of clients":                    {tls("cert", "key", ", tls_client_ca_file: "+in("none")), "reading http.tls_client_ca_file: "},
		"a directory":                         {tls(".", "key", ""), "is a directory"},
		"a certificate of text":               {tls("text", "key", ""), "http.tls_cert_file"},
		"a key of another pair":               {tls("cert", "other", ""), "does not match"},
		"a CA of text":                        {tls("cert", "key", ", tls_client_ca_file: "+in("text")), "has no certificate in PEM form"},
		"no port":                             {"http: {addr: localhost}\n" + someDatabase, "http.addr is"},
		"an address of another host":          {"http: {addr: '192.0.2.1:0'}\n" + someDatabase, "http.addr is"},
		"an internal address of another host": {"http: {addr: '127.0.0.1:0', internal_addr: '192.0.2.1:0'}\n" + someDatabase, "http.internal_addr is"},
		"two addresses with one port":         {"http: {addr: ':6632', internal_addr: '127.0.0.1:6632'}\n" + someDatabase, "http.internal_addr is"},
		"a public key of text":                {"auth: {enabled: true, algorithm: auto, public_key: text}\n" + someDatabase, "auth.public_key is not PEM"},
		"a short key":                         {"encryption: {key: abc}\n" + someDatabase, "encryption.key"},
	} {
		both(t, name, c.want, "--config", configFile(t, c.file))
	}
	both(t, "no file", "reading the configuration file", "--config", in("none"))
	t.Setenv("BELFRY_DATABASE_URL_FILE", in("none"))
	both(t, "no file of a secret", "which cannot be used")
}

// someDatabase is a valid setting. No server listens on its port.
const someDatabase = "database: {url: 'postgres://u@127.0.0.1:1/d', start_timeout: 1ms}\n"

// both requires that serve and config --check refuse the same configuration with the same text.
func both(t *testing.T, name, want string, args ...string) {
	t.Helper()
	code, _, served := belfry(t, append([]string{"serve"}, args...)...)
	require.Equal(t, 1, code, "%s: %s", name, served)
	require.Contains(t, served, want, name)
	require.NotContains(t, served, "geheim")
	code, stdout, checked := belfry(t, append([]string{"config", "--check"}, args...)...)
	require.Equal(t, 1, code, "%s: %s", name, served)
	require.Equal(t, served, checked, name)
	require.Empty(t, stdout, name)
}
