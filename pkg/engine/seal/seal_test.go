package seal_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
)

// first is the message of most envelopes.
var first = seal.Message{Queue: "q", Partition: "p", ID: [16]byte{1}}

func sealer(t *testing.T, digit string) *seal.Sealer {
	t.Helper()
	s, err := seal.New(seal.Config{Key: setting.Secret(digits(digit))})
	require.NoError(t, err)
	return s
}

func TestOpenReturnsTheSealedBytes(t *testing.T) {
	s := sealer(t, "a")
	for _, payload := range [][]byte{[]byte("null"), []byte(`{"b":1.0,"a":"é\u0000"}`), bytes.Repeat([]byte("x"), 1<<20)} {
		sealed, err := s.Seal(payload, first)
		require.NoError(t, err)
		require.True(t, json.Valid(sealed))
		require.False(t, bytes.Contains(sealed, payload))
		opened, err := s.Open(sealed, first)
		require.NoError(t, err)
		require.Equal(t, payload, opened)
		again, err := s.Seal(payload, first)
		require.NoError(t, err)
		require.NotEqual(t, sealed, again, "each envelope has its own iv")
	}
}

func TestOpenRejectsOtherKeysAndChangedEnvelopes(t *testing.T) {
	sealed, err := sealer(t, "a").Seal([]byte(`{"secret":true}`), first)
	require.NoError(t, err)
	_, err = sealer(t, "b").Open(sealed, first)
	require.Error(t, err, "another key")
	var none *seal.Sealer
	_, err = none.Open(sealed, first)
	require.ErrorIs(t, err, seal.ErrNoKey)
	for _, damaged := range []string{`{}`, `7`, `{"encrypted":"","iv":"","authTag":""}`} {
		_, err = sealer(t, "a").Open([]byte(damaged), first)
		require.Error(t, err, damaged)
	}
	var e struct {
		Encrypted []byte `json:"encrypted"`
		IV        []byte `json:"iv"`
		AuthTag   []byte `json:"authTag"`
		KeyID     string `json:"keyId"`
	}
	require.NoError(t, json.Unmarshal(sealed, &e))
	e.Encrypted[0] ^= 1
	changed, err := json.Marshal(e)
	require.NoError(t, err)
	_, err = sealer(t, "a").Open(changed, first)
	require.Error(t, err, "one bit changed")
}

func TestValidateChecksTheKeyAndDoesNotShowIt(t *testing.T) {
	require.NoError(t, seal.Config{}.Validate())
	require.NoError(t, seal.Config{Keys: setting.Secret("2026-11:" + digits("a") + ", old:" + digits("b")), Key: setting.Secret(digits("c"))}.Validate())
	for keys, want := range map[string]string{
		digits("a"):                              "no valid id in its pair 1",
		"a:" + digits("a") + ",":                 "no valid id in its pair 2",
		"a:" + digits("a")[1:]:                   "a key in its pair 1 of id:key, which must be 64 hexadecimal digits",
		"a:" + digits("a") + ",a:" + digits("b"): "the id a twice",
		"ü:" + digits("a"):                       "no valid id in its pair 1",
	} {
		err := seal.Config{Keys: setting.Secret(keys)}.Validate()
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), strings.Repeat("a", 60))
	}
	for _, key := range []string{"feedbeef", strings.Repeat("g", 64), strings.Repeat("a", 63)} {
		err := seal.Config{Key: setting.Secret(key)}.Validate()
		require.ErrorContains(t, err, "64 hexadecimal digits")
		require.NotContains(t, err.Error(), key)
	}
}

func digits(digit string) string { return strings.Repeat(digit, 64) }

// An envelope is bound to its queue, partition and message.
func TestOpenRejectsTheEnvelopeOfAnotherMessage(t *testing.T) {
	s := sealer(t, "a")
	sealed, err := s.Seal([]byte("1"), first)
	require.NoError(t, err)
	for name, other := range map[string]seal.Message{
		"queue":     {Queue: "q2", Partition: "p", ID: [16]byte{1}},
		"partition": {Queue: "q", Partition: "p2", ID: [16]byte{1}},
		"message":   {Queue: "q", Partition: "p", ID: [16]byte{2}},
		"border":    {Queue: "qp", Partition: "", ID: [16]byte{1}},
	} {
		_, err = s.Open(sealed, other)
		require.Error(t, err, name)
	}
	unbound := bytes.Replace(sealed, []byte(`,"keyId":""`), nil, 1)
	require.NotEqual(t, sealed, unbound)
	_, err = s.Open(unbound, first)
	require.Error(t, err, "a bound envelope without its keyId is refused")
}

// The first key of encryption.keys encrypts, and all keys decrypt.
func TestKeysAreReplaced(t *testing.T) {
	ring := func(cfg seal.Config) *seal.Sealer {
		s, err := seal.New(cfg)
		require.NoError(t, err)
		return s
	}
	a, b := digits("a"), digits("b")
	single, old := sealer(t, "a"), ring(seal.Config{Keys: setting.Secret("old:" + a)})
	both := ring(seal.Config{Keys: setting.Secret("new:" + b), Key: setting.Secret(a)})
	rotated := ring(seal.Config{Keys: setting.Secret("new:" + b + ", old:" + a)})
	next := ring(seal.Config{Keys: setting.Secret("new:" + b)})
	envelope := func(s *seal.Sealer) []byte {
		sealed, err := s.Seal([]byte("1"), first)
		require.NoError(t, err)
		return sealed
	}
	require.Contains(t, string(envelope(rotated)), `"keyId":"new"`)
	require.Contains(t, string(envelope(both)), `"keyId":"new"`)
	for name, c := range map[string]struct {
		sealed  []byte
		openers []*seal.Sealer
		fails   *seal.Sealer
		why     string
	}{
		"of the older version": {older(t, a), []*seal.Sealer{single, both, rotated, old}, next, "opening with this encryption.key"},
		"of encryption.key":    {envelope(single), []*seal.Sealer{single, both, rotated, old}, next, "opening with this encryption.key"},
		"of an earlier key":    {envelope(old), []*seal.Sealer{old, rotated}, next, `encryption.keys has no key "old"`},
		"of the current key":   {envelope(rotated), []*seal.Sealer{both, rotated, next}, old, `encryption.keys has no key "new"`},
	} {
		for _, s := range c.openers {
			payload, err := s.Open(c.sealed, first)
			require.NoError(t, err, name)
			require.Equal(t, "1", string(payload), name)
		}
		_, err := c.fails.Open(c.sealed, first)
		require.ErrorContains(t, err, c.why, name)
	}
}

// older returns an envelope in the format of versions without encryption.keys.
func older(t *testing.T, key string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(key)
	require.NoError(t, err)
	block, err := aes.NewCipher(raw)
	require.NoError(t, err)
	aead, err := cipher.NewGCMWithNonceSize(block, 16)
	require.NoError(t, err)
	iv := bytes.Repeat([]byte{7}, 16)
	box := aead.Seal(nil, iv, []byte("1"), nil)
	sealed, err := json.Marshal(map[string][]byte{"encrypted": box[:1], "iv": iv, "authTag": box[1:]})
	require.NoError(t, err)
	return sealed
}
