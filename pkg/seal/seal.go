// Package seal encrypts payloads at rest for queues with encryptionEnabled:
// AES-256-GCM, in the envelope of the reference system, so that its stored
// messages and ours look alike:
//
//	{"encrypted": base64, "iv": base64 of 16 bytes, "authTag": base64 of 16 bytes}
//
// It promises that Open returns exactly the bytes Seal was given, or an error.
// It is a leaf without I/O, importable by every package.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

const (
	keyBytes = 32
	ivBytes  = 16
	tagBytes = 16
)

// Config is the section "encryption".
type Config struct {
	// Key is 64 hexadecimal digits; empty switches encryption off.
	Key string `mapstructure:"key"`
}

// Validate says what is wrong with the key without showing it.
func (c Config) Validate() error {
	_, err := New(c)
	return err
}

// Sealer seals and opens with one key. It is safe for concurrent use. A nil
// Sealer has no key.
type Sealer struct{ aead cipher.AEAD }

// New returns a Sealer, or nil without a key.
func New(cfg Config) (*Sealer, error) {
	if cfg.Key == "" {
		return nil, nil //nolint:nilnil // a nil Sealer is the one without a key
	}
	key, err := hex.DecodeString(cfg.Key)
	if err != nil || len(key) != keyBytes {
		return nil, fmt.Errorf("encryption.key must be %d hexadecimal digits (%d bytes); it has %d characters",
			2*keyBytes, keyBytes, len(cfg.Key))
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("making the cipher: %w", err)
	}
	aead, err := cipher.NewGCMWithNonceSize(block, ivBytes)
	if err != nil {
		return nil, fmt.Errorf("making the cipher: %w", err)
	}
	return &Sealer{aead: aead}, nil
}

type envelope struct {
	Encrypted []byte `json:"encrypted"`
	IV        []byte `json:"iv"`
	AuthTag   []byte `json:"authTag"`
}

// Seal returns the envelope of payload.
func (s *Sealer) Seal(payload []byte) ([]byte, error) {
	iv := make([]byte, ivBytes)
	if _, err := rand.Read(iv); err != nil {
		return nil, fmt.Errorf("reading randomness: %w", err)
	}
	sealed := s.aead.Seal(nil, iv, payload, nil)
	cut := len(sealed) - tagBytes
	return json.Marshal(envelope{Encrypted: sealed[:cut], IV: iv, AuthTag: sealed[cut:]})
}

// ErrNoKey says that a sealed payload was met without a key.
var ErrNoKey = errors.New("the payload is encrypted and encryption.key is not set")

// Open returns what was sealed. It fails for another key, a changed envelope,
// and on a nil Sealer with ErrNoKey.
func (s *Sealer) Open(sealed []byte) ([]byte, error) {
	if s == nil {
		return nil, ErrNoKey
	}
	var e envelope
	if err := json.Unmarshal(sealed, &e); err != nil {
		return nil, fmt.Errorf("reading the envelope: %w", err)
	}
	if len(e.IV) != ivBytes || len(e.AuthTag) != tagBytes {
		return nil, errors.New("the envelope is damaged: iv or authTag has the wrong length")
	}
	payload, err := s.aead.Open(nil, e.IV, append(e.Encrypted, e.AuthTag...), nil)
	if err != nil {
		return nil, fmt.Errorf("opening with this encryption.key: %w", err)
	}
	return payload, nil
}
