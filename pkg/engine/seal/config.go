package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/belfry-mq/belfry/config/setting"
)

// KeyBytes is the length of a key.
const KeyBytes = 32

// Config is the section "encryption".
type Config struct {
	// Key is 64 hexadecimal digits. Without Key and Keys, pushes to queues with encryptionEnabled
	// are refused.
	Key setting.Secret `mapstructure:"key"`
	// Keys are pairs id:key, separated by commas. The first key is the current key. The other keys,
	// and Key, decrypt older payloads.
	Keys setting.Secret `mapstructure:"keys"`
	// AllowPlaintext makes a server without a key store such pushes in the clear.
	AllowPlaintext bool `mapstructure:"allow_plaintext"`
}

// Validate returns an error if a key is invalid. The error does not contain the key.
func (c Config) Validate() error {
	_, err := c.ring()
	return err
}

var validID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,32}$`)

// ring returns all keys. The current key is the first.
func (c Config) ring() ([]key, error) {
	var keys []key
	if c.Keys != "" {
		for i, pair := range strings.Split(c.Keys.Reveal(), ",") {
			id, digits, _ := strings.Cut(strings.TrimSpace(pair), ":")
			if !validID.MatchString(id) {
				return nil, fmt.Errorf("encryption.keys has no valid id in its pair %d of id:key: use up to 32 letters, digits, . _ and -", i+1)
			}
			if slices.ContainsFunc(keys, func(k key) bool { return k.id == id }) {
				return nil, fmt.Errorf("encryption.keys has the id %s twice: give each key its own id", id)
			}
			aead, err := newAEAD(strings.TrimSpace(digits))
			if err != nil {
				return nil, fmt.Errorf("encryption.keys has a key in its pair %d of id:key, which %w", i+1, err) // the id may be a key by mistake
			}
			keys = append(keys, key{id, aead})
		}
	}
	if c.Key != "" {
		aead, err := newAEAD(c.Key.Reveal())
		if err != nil {
			return nil, fmt.Errorf("encryption.key %w", err)
		}
		keys = append(keys, key{"", aead})
	}
	return keys, nil
}

var errNotAKey = errors.New("must be 64 hexadecimal digits (32 bytes)")

func newAEAD(digits string) (cipher.AEAD, error) {
	bytes, err := hex.DecodeString(digits)
	if err != nil || len(bytes) != KeyBytes {
		return nil, fmt.Errorf("%w, but has %d characters", errNotAKey, len(digits))
	}
	block, err := aes.NewCipher(bytes)
	if err != nil {
		return nil, fmt.Errorf("has no cipher: %w", err)
	}
	aead, err := cipher.NewGCMWithNonceSize(block, ivBytes)
	if err != nil {
		return nil, fmt.Errorf("has no cipher: %w", err)
	}
	return aead, nil
}
