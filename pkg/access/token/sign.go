package token

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Request describes a new token.
type Request struct {
	Subject string
	Role    identity.Role
	// Grants limit the role to queues and groups. Nil means no limit.
	Grants *identity.Grants
	// Lifetime is how long the token is valid. 0 means that it does not expire.
	Lifetime time.Duration
	// KeyID is the id of the key, for a verifier with several keys. It may be empty.
	KeyID string
}

// SigningKey signs tokens.
type SigningKey struct {
	method jwt.SigningMethod
	key    any
}

// SecretKey returns the key that signs with HS256 and a shared secret.
func SecretKey(secret string) SigningKey { return SigningKey{jwt.SigningMethodHS256, []byte(secret)} }

// ParseSigningKey reads a private key: PEM with an RSA, ECDSA P-256 or Ed25519 key. Errors do not contain
// the key.
func ParseSigningKey(text []byte) (SigningKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return SigningKey{}, errors.New("the signing key is not PEM: it must begin with -----BEGIN PRIVATE KEY-----")
	}
	var key any
	var err error
	switch block.Type {
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	default:
		return SigningKey{}, fmt.Errorf("the signing key has the PEM type %q: it must be a PRIVATE KEY", block.Type)
	}
	if err != nil {
		return SigningKey{}, errors.New("the signing key cannot be read: it must not have a password")
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return SigningKey{}, errors.New("the signing key cannot sign")
	}
	switch key := key.(type) {
	case *rsa.PrivateKey:
		if algorithmOf(&key.PublicKey) == RS256 {
			return SigningKey{jwt.SigningMethodRS256, signer}, nil
		}
	case *ecdsa.PrivateKey:
		if algorithmOf(&key.PublicKey) == ES256 {
			return SigningKey{jwt.SigningMethodES256, signer}, nil
		}
	case ed25519.PrivateKey:
		return SigningKey{jwt.SigningMethodEdDSA, signer}, nil
	}
	return SigningKey{}, fmt.Errorf("the signing key cannot be used: it must be an RSA key of at least %d bits, an ECDSA key on the curve P-256, or an Ed25519 key", minRSA)
}

// Sign returns a new token with a random id. cfg has the names of claims and roles, the issuer and the
// audience.
func Sign(cfg Config, r Request, key SigningKey) (string, error) {
	now := time.Now()
	claims := jwt.MapClaims{"iat": now.Unix(), "jti": queue.NewID().String()}
	if r.Subject != "" {
		claims["sub"] = r.Subject
	}
	if cfg.Issuer != "" {
		claims["iss"] = cfg.Issuer
	}
	if cfg.Audience != "" {
		claims["aud"] = cfg.Audience
	}
	if r.Grants != nil {
		claims[grantsClaim] = r.Grants
	}
	if r.Lifetime > 0 {
		claims["exp"] = now.Add(r.Lifetime).Unix()
	}
	name := map[identity.Role]string{identity.ReadOnly: cfg.ReadOnlyRole, identity.ReadWrite: cfg.ReadWriteRole, identity.Admin: cfg.AdminRole}[r.Role]
	switch {
	case name == "":
	case cfg.RoleClaim != "":
		claims[cfg.RoleClaim] = name
	default:
		claims[cfg.RolesClaim] = []string{name}
	}
	token := jwt.NewWithClaims(key.method, claims)
	if r.KeyID != "" {
		token.Header["kid"] = r.KeyID
	}
	text, err := token.SignedString(key.key)
	if err != nil {
		return "", fmt.Errorf("signing the token: %w", err)
	}
	return text, nil
}

// Content has the header and the claims of a token. They are not verified.
type Content struct {
	Header map[string]any `json:"header"`
	Claims map[string]any `json:"claims"`
}

// Read returns the content of a token. It does not verify the signature.
func Read(token string) (Content, error) {
	claims := jwt.MapClaims{}
	parsed, _, err := jwt.NewParser().ParseUnverified(token, claims)
	if err != nil {
		return Content{}, refused("Invalid token format", err)
	}
	return Content{Header: parsed.Header, Claims: claims}, nil
}
