package token

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/zap"
	"golang.org/x/time/rate"
)

const (
	// minRSA is the minimum length of an RSA key in bits. RFC 7518, section 3.3, requires it.
	minRSA = 2048
	// unknownKeyInterval is the minimum time between two fetches because of unknown key ids.
	unknownKeyInterval = 10 * time.Second
	// unknownKeyWait limits how long a token waits until another fetch is allowed. It is shorter than
	// unknownKeyInterval, so most tokens are refused at once.
	unknownKeyWait = time.Second
	// maxKeysBytes limits an answer of auth.jwks_url.
	maxKeysBytes = 1 << 20
)

// errNoKeys means that the keys of the identity provider were never fetched.
var errNoKeys = errors.New("the keys of auth.jwks_url were not fetched yet")

// keys are the keys that verify tokens.
type keys struct {
	secrets [][]byte
	public  crypto.PublicKey // the key in auth.public_key, or nil
	fetched keyfunc.Keyfunc  // the keys from auth.jwks_url, or nil
}

// newKeys returns the keys of a configuration. It fetches the keys of auth.jwks_url regularly until ctx
// ends. It blocks until the first fetch ends, at most for auth.jwks_timeout.
func newKeys(ctx context.Context, cfg Config, log *zap.Logger) (k keys, err error) {
	for _, secret := range []string{cfg.Secret.Reveal(), cfg.PreviousSecret.Reveal()} {
		if secret != "" {
			k.secrets = append(k.secrets, []byte(secret))
		}
	}
	if k.public, err = cfg.publicKey(); err != nil || k.public != nil || cfg.JWKSURL == "" {
		return k, err // a public key has precedence over the keys of a URL
	}
	fetched, err := keyfunc.NewDefaultOverrideCtx(ctx, []string{cfg.JWKSURL}, keyfunc.Override{
		Client: &http.Client{Transport: boundedAnswers{http.DefaultTransport}}, HTTPTimeout: cfg.FetchTimeout, RefreshInterval: cfg.RefreshInterval / 2,
		RefreshUnknownKID: rate.NewLimiter(rate.Every(unknownKeyInterval), 1), RateLimitWaitMax: unknownKeyWait,
		RefreshErrorHandlerFunc: func(string) func(context.Context, error) {
			return func(_ context.Context, err error) {
				log.Warn("the keys of auth.jwks_url could not be fetched; the known keys stay valid", zap.Error(err))
			}
		},
	})
	if err == nil {
		k.fetched, err = keyfunc.New(keyfunc.Options{Ctx: ctx, Storage: fetched.Storage(), UseWhitelist: verifying})
	}
	if err != nil {
		return k, fmt.Errorf("preparing auth.jwks_url: %w", err)
	}
	return k, nil
}

// verifying has the values of "use" (RFC 7517, section 4.2) of keys that may verify tokens. "use" is optional.
var verifying = []jwkset.USE{jwkset.UseSig, ""}

// boundedAnswers ends the body of each answer with an error after maxKeysBytes.
type boundedAnswers struct{ http.RoundTripper }

func (b boundedAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Body = http.MaxBytesReader(nil, answer.Body, maxKeysBytes)
	}
	return answer, err
}

// algorithms returns the algorithms that tokens may use.
func (k *keys) algorithms(cfg Config) []string {
	if cfg.Algorithm != Auto {
		return []string{cfg.Algorithm}
	}
	var all []string
	if len(k.secrets) > 0 {
		all = append(all, HS256)
	}
	switch {
	case k.public != nil:
		all = append(all, algorithmOf(k.public))
	case k.fetched != nil:
		all = append(all, RS256, ES256, EdDSA)
	}
	return all
}

// of returns the keys that can verify a token. The algorithm of the token must be an accepted algorithm.
func (k *keys) of(ctx context.Context, t *jwt.Token) (any, error) {
	algorithm := t.Method.Alg()
	switch {
	case algorithm == HS256:
		var set jwt.VerificationKeySet
		for _, secret := range k.secrets {
			set.Keys = append(set.Keys, secret)
		}
		return set, nil
	case k.public != nil:
		if algorithmOf(k.public) != algorithm {
			return nil, fmt.Errorf("auth.public_key is not a key for %s", algorithm)
		}
		return k.public, nil
	case t.Header["kid"] != nil:
		found, err := k.fetched.KeyfuncCtx(ctx)(t)
		if err != nil && k.empty(ctx) {
			return nil, errNoKeys
		}
		if err != nil {
			return nil, err
		}
		if algorithmOf(found) != algorithm {
			return nil, fmt.Errorf("the key of the token is not a key for %s", algorithm)
		}
		return found, nil
	default:
		return k.anyFetched(ctx, algorithm)
	}
}

// anyFetched returns all fetched keys for an algorithm. It is for tokens without a key id.
func (k *keys) anyFetched(ctx context.Context, algorithm string) (set jwt.VerificationKeySet, err error) {
	all, err := k.fetched.Storage().KeyReadAll(ctx)
	if err != nil {
		return set, fmt.Errorf("reading the fetched keys: %w", err)
	}
	if len(all) == 0 {
		return set, errNoKeys
	}
	for _, key := range all {
		if algorithmOf(key.Key()) == algorithm && slices.Contains(verifying, key.Marshal().USE) {
			set.Keys = append(set.Keys, key.Key())
		}
	}
	if len(set.Keys) == 0 {
		return set, fmt.Errorf("auth.jwks_url has no key for %s", algorithm)
	}
	return set, nil
}

// empty reports whether no key was fetched yet.
func (k *keys) empty(ctx context.Context) bool {
	all, err := k.fetched.Storage().KeyReadAll(ctx)
	return err == nil && len(all) == 0
}

// algorithmOf returns the algorithm that a public key verifies. It returns "" if the key cannot be used.
func algorithmOf(key any) string {
	switch key := key.(type) {
	case *rsa.PublicKey:
		if key.N.BitLen() >= minRSA {
			return RS256
		}
	case *ecdsa.PublicKey:
		if key.Curve == elliptic.P256() {
			return ES256
		}
	case ed25519.PublicKey:
		return EdDSA
	}
	return ""
}

// publicKey returns the key of auth.public_key, or nil. The text may have \n instead of line breaks.
func (c Config) publicKey() (crypto.PublicKey, error) {
	if c.PublicKey == "" {
		return nil, nil
	}
	block, _ := pem.Decode([]byte(strings.ReplaceAll(c.PublicKey, `\n`, "\n")))
	if block == nil {
		return nil, errors.New("auth.public_key is not PEM: it must begin with -----BEGIN PUBLIC KEY-----")
	}
	var key crypto.PublicKey
	var err error
	switch block.Type {
	case "PUBLIC KEY":
		key, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		key, err = x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		var certificate *x509.Certificate
		if certificate, err = x509.ParseCertificate(block.Bytes); err == nil {
			key = certificate.PublicKey
		}
	default:
		return nil, fmt.Errorf("auth.public_key has the PEM type %s: it must be a PUBLIC KEY, an RSA PUBLIC KEY or a CERTIFICATE", strings.ToLower(block.Type))
	}
	if err != nil {
		return nil, fmt.Errorf("auth.public_key cannot be read: %w", err)
	}
	algorithm := algorithmOf(key)
	switch {
	case algorithm == "":
		return nil, fmt.Errorf("auth.public_key cannot be used: it must be an RSA key of at least %d bits, an ECDSA key on the curve P-256, or an Ed25519 key", minRSA)
	case c.Algorithm != Auto && c.Algorithm != HS256 && c.Algorithm != algorithm:
		return nil, fmt.Errorf("auth.public_key is a key for %s, but auth.algorithm is %s", algorithm, c.Algorithm)
	}
	return key, nil
}
