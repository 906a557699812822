package token_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/access/token"
	"github.com/belfry-mq/belfry/pkg/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret, otherSecret = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"

// keyring has one private key of each kind.
var keyring = sync.OnceValue(func() (k struct {
	rsa, otherRSA, smallRSA *rsa.PrivateKey
	ecdsa                   *ecdsa.PrivateKey
	ed25519                 ed25519.PrivateKey
}) {
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	var err error
	k.rsa, err = rsa.GenerateKey(rand.Reader, 2048)
	must(err)
	k.otherRSA, err = rsa.GenerateKey(rand.Reader, 2048)
	must(err)
	k.smallRSA, err = rsa.GenerateKey(rand.Reader, 1024)
	must(err)
	k.ecdsa, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	_, k.ed25519, err = ed25519.GenerateKey(rand.Reader)
	must(err)
	return k
})

func publicPEM(t testing.TB, key crypto.PublicKey) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func config(edit func(*token.Config)) token.Config {
	cfg := token.DefaultConfig()
	cfg.Enabled, cfg.Secret = true, secret
	if edit != nil {
		edit(&cfg)
	}
	return cfg
}

func verifier(t testing.TB, cfg token.Config) *token.Verifier {
	t.Helper()
	require.NoError(t, cfg.Validate())
	v, err := token.New(t.Context(), cfg, nil, zap.NewNop())
	require.NoError(t, err)
	return v
}

// sign returns a token of claims with a header.
func sign(t testing.TB, method jwt.SigningMethod, key any, claims jwt.MapClaims, header ...string) string {
	t.Helper()
	made := jwt.NewWithClaims(method, claims)
	for i := 0; i < len(header); i += 2 {
		made.Header[header[i]] = header[i+1]
	}
	text, err := made.SignedString(key)
	require.NoError(t, err)
	return text
}

func claims(pairs ...any) jwt.MapClaims {
	c := jwt.MapClaims{"sub": "anna", "role": "read-write"}
	for i := 0; i < len(pairs); i += 2 {
		c[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return c
}

// Each token is accepted, or refused with the expected text. A second Verify, which may use the remembered
// token, has the same result.
func TestTokens(t *testing.T) {
	t.Parallel()
	k, now := keyring(), time.Now()
	hs := func(pairs ...any) string { return sign(t, jwt.SigningMethodHS256, []byte(secret), claims(pairs...)) }
	strict := func(c *token.Config) { c.Issuer, c.Audience = "https://idp", "belfry" }
	onlyKey := func(algorithm string, key crypto.PublicKey) func(*token.Config) {
		return func(c *token.Config) { c.Algorithm, c.Secret, c.PublicKey = algorithm, "", publicPEM(t, key) }
	}
	auto := func(c *token.Config) { c.Algorithm, c.PublicKey = token.Auto, publicPEM(t, &k.rsa.PublicKey) }
	rsaPEM := []byte(publicPEM(t, &k.rsa.PublicKey))
	valid := hs()
	parts := strings.Split(valid, ".")
	for name, c := range map[string]struct {
		edit  func(*token.Config)
		token string
		want  string // "": the token is accepted
	}{
		"HS256":                        {nil, valid, ""},
		"no token":                     {nil, "", "Authentication required"},
		"another secret":               {nil, sign(t, jwt.SigningMethodHS256, []byte(otherSecret), claims()), "Invalid token signature"},
		"the previous secret":          {func(c *token.Config) { c.PreviousSecret = otherSecret }, sign(t, jwt.SigningMethodHS256, []byte(otherSecret), claims()), ""},
		"changed claims":               {nil, parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"anna","role":"admin"}`)) + "." + parts[2], "Invalid token signature"},
		"no signature":                 {nil, parts[0] + "." + parts[1] + ".", "Invalid token signature"},
		"alg none":                     {nil, sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims()), "Token uses none, expected HS256"},
		"HS512":                        {nil, sign(t, jwt.SigningMethodHS512, []byte(secret), claims()), "Token uses HS512, expected HS256"},
		"two parts":                    {nil, "a.b", "Invalid token format"},
		"not base64":                   {nil, parts[0] + ".%%%." + parts[2], "Invalid token format"},
		"crit":                         {nil, sign(t, jwt.SigningMethodHS256, []byte(secret), claims(), "crit", "b64"), "Token has the header crit, which is not supported"},
		"expired":                      {nil, hs("exp", now.Add(-time.Minute).Unix()), "Token has expired"},
		"expired within the skew":      {nil, hs("exp", now.Add(-10*time.Second).Unix()), ""},
		"not valid yet":                {nil, hs("nbf", now.Add(time.Minute).Unix()), "Token is not valid yet"},
		"issued later":                 {nil, hs("iat", now.Add(time.Minute).Unix()), "Token is not valid yet"},
		"exp as text":                  {nil, hs("exp", "tomorrow"), "Invalid token claims"},
		"issuer":                       {strict, hs("iss", "https://idp", "aud", "belfry"), ""},
		"one of the audiences":         {strict, hs("iss", "https://idp", "aud", []string{"other", "belfry"}), ""},
		"another issuer":               {strict, hs("iss", "https://other", "aud", "belfry"), "Invalid token issuer"},
		"another audience":             {strict, hs("iss", "https://idp", "aud", "other"), "Invalid token audience"},
		"no issuer":                    {strict, hs("aud", "belfry"), "Invalid token claims"},
		"RS256":                        {onlyKey(token.RS256, &k.rsa.PublicKey), sign(t, jwt.SigningMethodRS256, k.rsa, claims()), ""},
		"another RSA key":              {onlyKey(token.RS256, &k.rsa.PublicKey), sign(t, jwt.SigningMethodRS256, k.otherRSA, claims()), "Invalid token signature"},
		"RS384":                        {onlyKey(token.RS256, &k.rsa.PublicKey), sign(t, jwt.SigningMethodRS384, k.rsa, claims()), "Token uses RS384, expected RS256"},
		"ES256":                        {onlyKey(token.ES256, &k.ecdsa.PublicKey), sign(t, jwt.SigningMethodES256, k.ecdsa, claims()), ""},
		"EdDSA":                        {onlyKey(token.EdDSA, k.ed25519.Public()), sign(t, jwt.SigningMethodEdDSA, k.ed25519, claims()), ""},
		"auto HS256":                   {auto, valid, ""},
		"auto RS256":                   {auto, sign(t, jwt.SigningMethodRS256, k.rsa, claims()), ""},
		"auto ES256":                   {auto, sign(t, jwt.SigningMethodES256, k.ecdsa, claims()), "Token uses ES256, expected HS256 or RS256"},
		"a public key as secret":       {onlyKey(token.RS256, &k.rsa.PublicKey), sign(t, jwt.SigningMethodHS256, rsaPEM, claims()), "Token uses HS256, expected RS256"},
		"a public key as secret, auto": {auto, sign(t, jwt.SigningMethodHS256, rsaPEM, claims()), "Invalid token signature"},
		"control characters":           {nil, hs("sub", "a\x00b"), "Invalid token subject"},
		"a long subject":               {nil, hs("sub", strings.Repeat("a", 513)), "Invalid token subject"},
		"a numeric subject":            {nil, hs("sub", 7), "Invalid token subject"},
		"a numeric id":                 {nil, hs("jti", 7), "Invalid token id"},
		"limited to queues":            {nil, hs("belfry", map[string]any{"push": []string{"a.*"}}), ""},
		"a misspelled limit":           {nil, hs("belfry", map[string]any{"pusch": []string{"a.*"}}), `Invalid token claim belfry: "pusch" is unknown: use read, push, consume and admin`},
		"a limit that is null":         {nil, hs("belfry", nil), "Invalid token claim belfry: it must be an object with read, push, consume and admin"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := verifier(t, config(c.edit))
			for range 2 {
				p, err := v.Verify(t.Context(), c.token)
				if c.want != "" {
					var refused *queue.Error
					require.ErrorAs(t, err, &refused)
					require.Equal(t, c.want, refused.Message)
					require.Equal(t, queue.CodeUnauthenticated, refused.Code)
					continue
				}
				require.NoError(t, err)
				require.Equal(t, "anna", p.Subject)
				require.Equal(t, identity.ReadWrite, p.Role)
			}
		})
	}
}

func TestRoles(t *testing.T) {
	t.Parallel()
	v := verifier(t, config(func(c *token.Config) { c.RolesClaim = "groups"; c.AdminRole = "boss" }))
	for _, c := range []struct {
		want   identity.Role
		claims jwt.MapClaims
	}{
		{identity.NoRole, jwt.MapClaims{}},
		{identity.NoRole, jwt.MapClaims{"role": "admin", "roles": []string{"boss"}}},
		{identity.NoRole, jwt.MapClaims{"role": []string{"boss"}, "groups": "boss"}},
		{identity.ReadOnly, jwt.MapClaims{"role": "read-only"}},
		{identity.ReadWrite, jwt.MapClaims{"groups": []any{"x", "read-write", "read-only", 7}}},
		{identity.Admin, jwt.MapClaims{"role": "read-only", "groups": []string{"boss"}}},
	} {
		p, err := v.Verify(t.Context(), sign(t, jwt.SigningMethodHS256, []byte(secret), c.claims))
		require.NoError(t, err)
		require.Equal(t, c.want, p.Role, c.claims)
	}
}

func TestFromHeader(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		"": "", "Bearer": "", "bearer  ": "", "Bearer a.b.c": "a.b.c", "bEARER  a.b.c ": "a.b.c", "a.b.c": "a.b.c", "Basic x": "Basic x",
	} {
		require.Equal(t, want, token.FromHeader(header), header)
	}
}

// A remembered token is refused when it expires.
func TestARememberedTokenExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := verifier(t, config(nil))
		text := sign(t, jwt.SigningMethodHS256, []byte(secret), claims("exp", time.Now().Add(5*time.Second).Unix()))
		_, err := v.Verify(t.Context(), text)
		require.NoError(t, err)
		time.Sleep(36 * time.Second) // the token lasts 5 s, and the clock skew is 30 s
		_, err = v.Verify(t.Context(), text)
		require.ErrorContains(t, err, "Token has expired")
	})
}

func TestInconsistentConfigurations(t *testing.T) {
	t.Parallel()
	k := keyring()
	for want, edit := range map[string]func(*token.Config){
		"auth.secret is empty":                        func(c *token.Config) { c.Secret = "" },
		"auth.secret has fewer than 32 bytes":         func(c *token.Config) { c.Secret = "short-marker" },
		"auth.algorithm is \"RS384\"":                 func(c *token.Config) { c.Algorithm = "RS384" },
		"auth.public_key and auth.jwks_url are empty": func(c *token.Config) { c.Algorithm, c.Secret = token.RS256, "" },
		"auth.secret is set, but RS256":               func(c *token.Config) { c.Algorithm, c.PublicKey = token.RS256, publicPEM(t, &k.rsa.PublicKey) },
		"HS256 (auth.algorithm) does not use it":      func(c *token.Config) { c.JWKSURL = "https://idp/keys" },
		"auth.enabled is true without a key":          func(c *token.Config) { c.Algorithm, c.Secret = token.Auto, "" },
		"auth.public_key is not PEM":                  func(c *token.Config) { c.Algorithm, c.Secret, c.PublicKey = token.RS256, "", "short-marker" },
		"auth.public_key cannot be used":              func(c *token.Config) { c.Algorithm, c.PublicKey = token.Auto, publicPEM(t, &k.smallRSA.PublicKey) },
		"key for EdDSA, but auth.algorithm is RS256": func(c *token.Config) {
			c.Algorithm, c.Secret, c.PublicKey = token.RS256, "", publicPEM(t, k.ed25519.Public())
		},
		"auth.jwks_url must be a URL": func(c *token.Config) { c.Algorithm, c.JWKSURL = token.Auto, "idp/keys" },
		"auth.previous_secret is set without": func(c *token.Config) {
			c.Algorithm, c.Secret, c.PreviousSecret, c.JWKSURL = token.Auto, "", secret, "https://idp/keys"
		},
		"auth.clock_skew is -1s":                                 func(c *token.Config) { c.ClockSkew = -time.Second },
		"auth.role_claim and auth.roles_claim are empty":         func(c *token.Config) { c.RoleClaim, c.RolesClaim = "", "" },
		"they must be distinct and not empty":                    func(c *token.Config) { c.ReadOnlyRole = "admin" },
		"auth.skip_paths has [\"health\"]: each path must begin": func(c *token.Config) { c.SkipPaths = []string{"health"} },
	} {
		err := config(edit).Validate()
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "short-marker")
		require.NoError(t, config(func(c *token.Config) { edit(c); c.Enabled = false }).Validate(), "auth is off")
	}
}

func TestSkippedPaths(t *testing.T) {
	t.Parallel()
	cfg := config(func(c *token.Config) { c.SkipPaths = []string{"/", "/docs/", "/health"} })
	for path, want := range map[string]bool{
		"/": true, "/health": true, "/health/": false, "/healthy": false, "/docs/": true, "/docs/a/b": true, "/docs": false, "/api/v1/push": false,
	} {
		require.Equal(t, want, cfg.Skips(path), path)
	}
}

// A Verifier with the public key accepts the tokens that Sign returns.
func TestSignedTokens(t *testing.T) {
	t.Parallel()
	k := keyring()
	for _, key := range []crypto.Signer{k.rsa, k.ecdsa, k.ed25519} {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		require.NoError(t, err)
		signing, err := token.ParseSigningKey(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
		require.NoError(t, err)
		cfg := config(func(c *token.Config) {
			c.Algorithm, c.Secret, c.PublicKey, c.Issuer, c.Audience = token.Auto, "", publicPEM(t, key.Public()), "us", "belfry"
		})
		text, err := token.Sign(cfg, token.Request{Subject: "anna", Role: identity.Admin, Lifetime: time.Hour}, signing)
		require.NoError(t, err)
		p, err := verifier(t, cfg).Verify(t.Context(), text)
		require.NoError(t, err)
		require.Equal(t, "anna", p.Subject)
		require.Equal(t, identity.Admin, p.Role)
		require.NotEmpty(t, p.TokenID)
		require.WithinDuration(t, time.Now().Add(time.Hour), p.ExpiresAt, time.Minute)
	}
	_, err := token.ParseSigningKey([]byte("short-marker"))
	require.ErrorContains(t, err, "not PEM")
	require.NotContains(t, err.Error(), "short-marker")
}

// The Verifier accepts no token without a valid signature.
func FuzzVerify(f *testing.F) {
	k := keyring()
	cfg := config(func(c *token.Config) { c.Algorithm, c.PublicKey = token.Auto, publicPEM(f, &k.rsa.PublicKey) })
	v, err := token.New(context.Background(), cfg, nil, zap.NewNop())
	require.NoError(f, err)
	valid := sign(f, jwt.SigningMethodHS256, []byte(secret), claims())
	f.Add("Bearer " + sign(f, jwt.SigningMethodHS256, []byte(otherSecret), claims()))
	f.Add(sign(f, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims()))
	f.Add("bearer " + valid[:len(valid)-2])
	f.Add("a.b.c")
	f.Fuzz(func(t *testing.T, header string) {
		text := token.FromHeader(header)
		p, err := v.Verify(context.Background(), text)
		if text == valid {
			return
		}
		require.Nil(t, p)
		code := queue.CodeOf(err)
		require.Equal(t, queue.CodeUnauthenticated, code)
	})
}
