package token_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/access/token"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/stopwatch"
)

// provider is an identity provider with keys by id.
type provider struct {
	*httptest.Server
	keys    atomic.Pointer[map[string]*rsa.PublicKey]
	use     atomic.Pointer[string] // nil: sig
	broken  atomic.Bool
	padding atomic.Int64 // bytes of an unknown member of the answer
	fetches atomic.Int64
}

func newProvider(t *testing.T, keys map[string]*rsa.PublicKey) *provider {
	t.Helper()
	p := &provider{}
	p.keys.Store(&keys)
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		p.fetches.Add(1)
		if p.broken.Load() {
			http.Error(w, "broken", http.StatusInternalServerError)
			return
		}
		var set struct {
			Padding string              `json:"padding"`
			Keys    []map[string]string `json:"keys"`
		}
		set.Padding = strings.Repeat("x", int(p.padding.Load()))
		use := "sig"
		if other := p.use.Load(); other != nil {
			use = *other
		}
		for id, key := range *p.keys.Load() {
			set.Keys = append(set.Keys, map[string]string{
				"kty": "RSA", "use": use, "alg": "RS256", "kid": id,
				"n": base64.RawURLEncoding.EncodeToString(key.N.Bytes()), "e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(key.E)).Bytes()),
			})
		}
		_ = json.NewEncoder(w).Encode(set)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *provider) config(refresh time.Duration) token.Config {
	return config(func(c *token.Config) {
		c.Algorithm, c.Secret, c.JWKSURL, c.RefreshInterval, c.FetchTimeout = token.RS256, "", p.URL, refresh, time.Second
	})
}

func verify(t *testing.T, v *token.Verifier, key *rsa.PrivateKey, header ...string) error {
	t.Helper()
	_, err := v.Verify(t.Context(), sign(t, jwt.SigningMethodRS256, key, claims("jti", queue.NewID().String()), header...))
	return err
}

// When a token names a new key, the verifier fetches the keys, once for many tokens. If the provider withdraws
// a key, its tokens are refused within the refresh interval, including tokens that were accepted before.
func TestKeysOfAProviderRotate(t *testing.T) {
	t.Parallel()
	k := keyring()
	p := newProvider(t, map[string]*rsa.PublicKey{"one": &k.rsa.PublicKey})
	v := verifier(t, p.config(time.Hour))
	require.NoError(t, verify(t, v, k.rsa, "kid", "one"))
	require.NoError(t, verify(t, v, k.rsa), "a token without a key id is accepted")
	require.ErrorContains(t, verify(t, v, k.otherRSA, "kid", "one"), "Invalid token signature")

	p.keys.Store(&map[string]*rsa.PublicKey{"one": &k.rsa.PublicKey, "two": &k.otherRSA.PublicKey, "small": &k.smallRSA.PublicKey})
	require.NoError(t, verify(t, v, k.otherRSA, "kid", "two"))
	require.ErrorContains(t, verify(t, v, k.smallRSA, "kid", "small"), "Invalid token signature")
	before := p.fetches.Load()
	for range 50 {
		require.Error(t, verify(t, v, k.rsa, "kid", queue.NewID().String()))
	}
	require.LessOrEqual(t, p.fetches.Load()-before, int64(2), "unknown keys cause few fetches")

	const interval = 500 * time.Millisecond
	v = verifier(t, p.config(interval))
	used := sign(t, jwt.SigningMethodRS256, k.rsa, claims(), "kid", "one")
	_, err := v.Verify(t.Context(), used)
	require.NoError(t, err)
	p.keys.Store(&map[string]*rsa.PublicKey{"two": &k.otherRSA.PublicKey})
	watch := stopwatch.Start(t)
	require.Eventually(t, func() bool { _, err := v.Verify(t.Context(), used); return err != nil }, 30*time.Second, 10*time.Millisecond)
	watch.Within(t, interval+interval/2, "a withdrawn key is refused")
}

// While a provider does not answer, no new token is accepted without a key, and known keys stay valid.
func TestKnownKeysStayValidWhileTheProviderFails(t *testing.T) {
	t.Parallel()
	k := keyring()
	p := newProvider(t, map[string]*rsa.PublicKey{"one": &k.rsa.PublicKey})
	p.broken.Store(true)
	early := verifier(t, p.config(time.Hour))
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(verify(t, early, k.rsa)), "no key was ever fetched")

	p.broken.Store(false)
	v := verifier(t, p.config(200*time.Millisecond))
	p.broken.Store(true)
	fetched := p.fetches.Load()
	require.Eventually(t, func() bool { return p.fetches.Load() > fetched+2 }, 30*time.Second, 10*time.Millisecond)
	require.NoError(t, verify(t, v, k.rsa, "kid", "one"))
	require.ErrorContains(t, verify(t, v, k.rsa, "kid", "two"), "Invalid token signature")
}

// A key for encryption does not verify tokens. An answer above 1 MiB is refused.
func TestKeysThatDoNotVerify(t *testing.T) {
	t.Parallel()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	for _, c := range []struct {
		use      string
		padding  int64
		verifies bool
	}{{"sig", 1000, true}, {"", 0, true}, {"enc", 0, false}, {"sig", 1 << 20, false}} {
		p := newProvider(t, map[string]*rsa.PublicKey{"one": &key.PublicKey})
		p.use.Store(&c.use)
		p.padding.Store(c.padding)
		v, err := token.New(t.Context(), p.config(time.Hour), nil, zap.NewNop())
		require.NoError(t, err)
		for _, header := range [][]string{nil, {"kid", "one"}} {
			err := verify(t, v, key, header...)
			require.Equal(t, c.verifies, err == nil, "%+v %v: %v", c, header, err)
		}
	}
}
