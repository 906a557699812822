package provider

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
)

// keySize is the size of a key of AES-256 in bytes.
const keySize = 32

// errSeal means that a text was not sealed with this key, or was changed.
var errSeal = errors.New("the cookie was not made with the auth.client_secret of this server")

// sealer encrypts and authenticates the values of cookies.
type sealer struct{ aead cipher.AEAD }

// newSealer returns a sealer whose key is made from a secret. Sealers with different purposes cannot open the values of each
// other.
func newSealer(secret, purpose string) (sealer, error) {
	key, err := hkdf.Key(sha256.New, []byte(secret), nil, "belfry "+purpose, keySize)
	if err != nil {
		return sealer{}, fmt.Errorf("making a key from auth.client_secret: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return sealer{}, fmt.Errorf("making a key from auth.client_secret: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return sealer{aead}, err
}

// seal returns a value as a text for a cookie.
func (s sealer) seal(value any) (string, error) {
	plain, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("sealing a cookie: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, plain, nil)), nil
}

// open decodes a text that seal returned. Errors: errSeal.
func (s sealer) open(text string, value any) error {
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return errSeal
	}
	plain, err := s.aead.Open(nil, nil, sealed, nil)
	if err != nil || json.Unmarshal(plain, value) != nil {
		return errSeal
	}
	return nil
}
