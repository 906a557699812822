// Package seal encrypts payloads at rest for queues with encryptionEnabled. It uses
// AES-256-GCM and the envelope of the reference system, so that both store a message
// in the same form:
//
//	{"encrypted": base64, "iv": base64 of 16 bytes, "authTag": base64 of 16 bytes}
//
// Open returns exactly the bytes that were passed to Seal, or an error. The package
// has no I/O. It is on floor 0 and importable by every package.
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
	// KeyBytes is the length of a key.
	KeyBytes = 32
	ivBytes  = 16
	tagBytes = 16
)

// Config is the section "encryption".
type Config struct {
	// Key is 64 hexadecimal digits. Empty: pushes to queues with encryptionEnabled are refused.
	Key string `mapstructure:"key"`
	// AllowPlaintext: without a key, those pushes are stored in the clear.
	AllowPlaintext bool `mapstructure:"allow_plaintext"`
}

// Validate returns an error if the key is invalid. The error does not contain the key.
func (c Config) Validate() error {
	_, err := New(c)
	return err
}

// Sealer encrypts and decrypts with one key. It is safe for concurrent use. A nil Sealer
// has no key and does not allow plaintext.
type Sealer struct {
	aead           cipher.AEAD // nil: no key
	allowPlaintext bool
}

// New returns the Sealer of a config.
func New(cfg Config) (*Sealer, error) {
	if cfg.Key == "" {
		return &Sealer{allowPlaintext: cfg.AllowPlaintext}, nil
	}
	key, err := hex.DecodeString(cfg.Key)
	if err != nil || len(key) != KeyBytes {
		return nil, fmt.Errorf("encryption.key must be %d hexadecimal digits (%d bytes); it has %d characters",
			2*KeyBytes, KeyBytes, len(cfg.Key))
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("making the cipher: %w", err)
	}
	aead, err := cipher.NewGCMWithNonceSize(block, ivBytes)
	if err != nil {
		return nil, fmt.Errorf("making the cipher: %w", err)
	}
	return &Sealer{aead: aead, allowPlaintext: cfg.AllowPlaintext}, nil
}

// HasKey reports whether Seal can encrypt.
func (s *Sealer) HasKey() bool { return s != nil && s.aead != nil }

// AllowsPlaintext reports whether payloads are stored in the clear because there is no key.
func (s *Sealer) AllowsPlaintext() bool { return s != nil && s.aead == nil && s.allowPlaintext }

type envelope struct {
	Encrypted []byte `json:"encrypted"`
	IV        []byte `json:"iv"`
	AuthTag   []byte `json:"authTag"`
}

// Seal encrypts payload and returns the envelope. Each envelope has its own iv. Without a
// key it returns ErrNoKeyToSeal.
func (s *Sealer) Seal(payload []byte) ([]byte, error) {
	if !s.HasKey() {
		return nil, ErrNoKeyToSeal
	}
	iv := make([]byte, ivBytes)
	_, _ = rand.Read(iv) // never fails
	sealed := s.aead.Seal(nil, iv, payload, nil)
	cut := len(sealed) - tagBytes
	return json.Marshal(envelope{Encrypted: sealed[:cut], IV: iv, AuthTag: sealed[cut:]})
}

// ErrNoKeyToSeal means that a queue has encryptionEnabled and the server has no key.
var ErrNoKeyToSeal = errors.New("encryption.key is not set, so the payload cannot be encrypted")

// ErrNoKey means that a payload is encrypted and the server has no key.
var ErrNoKey = errors.New("the payload is encrypted and encryption.key is not set")

// Open returns the payload of an envelope. It fails for another key and for a changed
// envelope. Without a key it returns ErrNoKey.
func (s *Sealer) Open(sealed []byte) ([]byte, error) {
	if !s.HasKey() {
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
