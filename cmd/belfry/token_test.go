package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/pgtest"
)

// inspect accepts a token that create printed with the same configuration. It refuses the token with another
// configuration.
func TestInspectAcceptsTokensOfTheSameConfiguration(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	keyFile := filepath.Join(t.TempDir(), "key.pem")
	require.NoError(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
	der, err = x509.MarshalPKIXPublicKey(public)
	require.NoError(t, err)
	verifies := configFile(t, "auth: {algorithm: EdDSA, public_key: '"+strings.ReplaceAll(string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})), "\n", `\n`)+"'}")
	shared := configFile(t, "auth: {secret: "+strings.Repeat("s", 32)+", issuer: us}")
	for _, c := range []struct{ makes, verifies, other, key string }{
		{shared, shared, configFile(t, "auth: {secret: "+strings.Repeat("o", 32)+", issuer: us}"), ""},
		{verifies, verifies, shared, keyFile},
	} {
		args := []string{"token", "create", "--config", c.makes, "--subject", "billing", "--role", "read-write", "--ttl", "1h", "--push", "a.*", "--consume", "a.*:g", "--consume", "b"}
		if c.key != "" {
			args = append(args, "--signing-key", c.key)
		}
		code, made, stderr := belfry(t, args...)
		require.Zero(t, code, stderr)
		code, stdout, stderr := belfry(t, "token", "inspect", "--config", c.verifies, strings.TrimSpace(made))
		require.Zero(t, code, stderr)
		require.Contains(t, stdout, `"sub": "billing"`)
		require.Regexp(t, `"belfry": {\s+"consume": \[\s+"a\.\*:g",\s+"b"\s+\],\s+"push": \[\s+"a\.\*"\s+\]\s+}`, stdout)
		require.Contains(t, stdout, `accepted: subject "billing", role read-write`)
		code, _, stderr = belfry(t, "token", "inspect", "--config", c.other, "Bearer "+strings.TrimSpace(made))
		require.Equal(t, 1, code)
		require.Contains(t, stderr, "the token is refused: ")
	}
}

// revoke accepts the text of a token or its id. revoked lists both, and the expiry time of a token.
func TestTokensAreRevoked(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	cfg := configFile(t, "auth: {secret: "+strings.Repeat("s", 32)+"}")
	run := func(args ...string) string {
		code, stdout, stderr := belfry(t, append([]string{"token"}, append(args, "--config", cfg, "--database-url", dsn)...)...)
		require.Zero(t, code, stderr)
		return stdout
	}
	made := strings.TrimSpace(run("create", "--subject", "a", "--role", "admin"))
	_, id, _ := strings.Cut(run("revoke", made), "revoked: ")
	run("revoke", "an id")
	run("revoke", `"42"`)
	parts := strings.Split(made, ".")
	code, _, stderr := belfry(t, "token", "revoke", made[1:], "--config", cfg, "--database-url", dsn)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "copy the complete token")
	// The expiry time in a forged token is ignored, so the revocation is kept for ever.
	forged := base64.RawURLEncoding.EncodeToString([]byte(`{"jti":"forged","exp":1}`))
	run("revoke", parts[0]+"."+forged+"."+parts[2])
	listed := run("revoked")
	require.Regexp(t, `(?m)^forged\s+\S+Z\s+\S+\s+-$`, listed)
	require.Regexp(t, `(?m)^42\s`, listed)
	require.Regexp(t, `(?m)^an id\s+\S+Z\s+\S+\s+-$`, listed)
	require.Regexp(t, `(?m)^`+strings.TrimSpace(id)+`\s+\S+Z\s+\S+\s+\S+Z$`, listed)
}

func TestTokenCommandsSayWhatIsMissing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line string
		code int
		want string
	}{
		{"token create --role admin", 2, `required flag(s) "subject"`},
		{"token create --subject a --role root", 1, "it must be read-only, read-write or admin"},
		{"token create --subject a --role admin --ttl 1ms", 1, "whole seconds"},
		{"token create --subject a --role admin", 1, "set auth.secret"},
		{"token create --subject a --role admin --consume a:", 1, `"a:" in consume is not a pattern`},
		{"token create --subject a --role admin --signing-key /nowhere", 1, "reading the signing key"},
		{"token inspect nonsense", 1, "Invalid token format"},
		{"token revoke abc", 1, "BELFRY_DATABASE_URL"},
		{"token revoke 42", 1, `servers accept no token whose id is a number. Name the token, or write the id as '"42"'`},
		{"token revoc", 2, `unknown command "revoc"`},
	} {
		code, _, stderr := belfry(t, strings.Fields(c.line)...)
		require.Equal(t, c.code, code, "%s: %s", c.line, stderr)
		require.Contains(t, stderr, c.want, c.line)
	}
}
