// Package seal encrypts payloads at rest for queues with encryptionEnabled. It uses AES-256-GCM and
// an envelope like the envelope of Queen MQ, with keyId added:
//
//	{"encrypted": base64, "iv": base64 of 16 bytes, "authTag": base64 of 16 bytes, "keyId": text}
//
// keyId is the id of the key in encryption.keys, or "" for encryption.key. An envelope with a
// keyId is bound to its message: it cannot be decrypted as another message. An older envelope has no
// keyId and is not bound.
//
// Open returns exactly the bytes that were passed to Seal, or an error. The package does no I/O.
package seal

import (
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

const (
	ivBytes  = 16
	tagBytes = 16
)

// Sealer encrypts with the current key, and decrypts with all keys. It is safe for concurrent
// use. A nil Sealer has no key and does not allow plaintext.
type Sealer struct {
	// keys are all keys. The current key is the first.
	keys           []key
	allowPlaintext bool
}

// key is a key with its id. The id of encryption.key is "".
type key struct {
	id   string
	aead cipher.AEAD
}

// New returns the Sealer of a config.
func New(cfg Config) (*Sealer, error) {
	keys, err := cfg.ring()
	if err != nil {
		return nil, err
	}
	return &Sealer{keys: keys, allowPlaintext: cfg.AllowPlaintext}, nil
}

// HasKey reports whether Seal can encrypt.
func (s *Sealer) HasKey() bool { return s != nil && len(s.keys) > 0 }

// Current returns the id of the key that encrypts: "" for encryption.key. HasKey must be true.
func (s *Sealer) Current() string { return s.keys[0].id }

// AllowsPlaintext reports whether payloads are stored in the clear because there is no key.
func (s *Sealer) AllowsPlaintext() bool { return s != nil && len(s.keys) == 0 && s.allowPlaintext }

// Message says which message an envelope belongs to.
type Message struct {
	Queue, Partition string
	ID               [16]byte
}

// bound returns the additional authenticated data that binds an envelope to the message.
func (m *Message) bound() []byte {
	data := []byte("belfry/1")
	for _, name := range []string{m.Queue, m.Partition} {
		data = append(binary.AppendUvarint(data, uint64(len(name))), name...)
	}
	return append(data, m.ID[:]...)
}

type envelope struct {
	Encrypted []byte `json:"encrypted"`
	IV        []byte `json:"iv"`
	AuthTag   []byte `json:"authTag"`
	// KeyID is nil in an envelope that is not bound to its message.
	KeyID *string `json:"keyId"`
}

// Seal encrypts the payload of a message and returns the envelope. Each envelope has its own
// iv. Without a key it returns ErrNoKeyToSeal.
func (s *Sealer) Seal(payload []byte, m Message) ([]byte, error) {
	if !s.HasKey() {
		return nil, ErrNoKeyToSeal
	}
	current := &s.keys[0]
	iv := make([]byte, ivBytes)
	_, _ = rand.Read(iv) // never fails
	sealed := current.aead.Seal(nil, iv, payload, m.bound())
	cut := len(sealed) - tagBytes
	return json.Marshal(envelope{Encrypted: sealed[:cut], IV: iv, AuthTag: sealed[cut:], KeyID: &current.id})
}

// ErrNoKeyToSeal means that a queue has encryptionEnabled and the server has no key.
var ErrNoKeyToSeal = errors.New("encryption.key is not set, so the payload cannot be encrypted")

// ErrNoKey means that a payload is encrypted and the server has no key.
var ErrNoKey = errors.New("the payload is encrypted and encryption.key is not set")

// Open returns the payload of a message's envelope. It fails if no key of the Sealer made the
// envelope, if the envelope belongs to another message, and if it was changed. Without a key it
// returns ErrNoKey.
func (s *Sealer) Open(sealed []byte, m Message) ([]byte, error) {
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
	var bound []byte
	if e.KeyID != nil {
		bound = m.bound()
	}
	box := slices.Concat(e.Encrypted, e.AuthTag)
	err := fmt.Errorf("encryption.keys has no key %q", e.keyID())
	for i := range s.keys {
		// encryption.key may have moved into encryption.keys, where it has an id.
		if id := e.keyID(); id != "" && id != s.keys[i].id {
			continue
		}
		var payload []byte
		if payload, err = s.keys[i].aead.Open(nil, e.IV, box, bound); err == nil {
			return payload, nil
		}
		err = fmt.Errorf("opening with this encryption.key: %w", err)
	}
	return nil, err
}

func (e *envelope) keyID() string {
	if e.KeyID == nil {
		return ""
	}
	return *e.KeyID
}
