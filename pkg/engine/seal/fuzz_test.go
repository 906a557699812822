package seal_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
)

// FuzzConfig reads any keys. The error contains no key. With valid keys, Open decrypts an envelope, even
// after another key has become the current key.
func FuzzConfig(f *testing.F) {
	f.Add("", "")
	f.Add(digits("a"), "")
	f.Add("", "one:"+digits("a")+", two:"+digits("b"))
	f.Add(digits("c"), "one:"+digits("a")+",one:"+digits("b"))
	f.Add(digits("c"), "one:"+digits("a")+",")
	f.Add("zz", digits("a"))
	f.Add("", "one:"+digits("a")[1:])
	f.Fuzz(func(t *testing.T, key, keys string) {
		cfg := seal.Config{Key: setting.Secret(key), Keys: setting.Secret(keys)}
		if err := cfg.Validate(); err != nil {
			for _, secret := range secrets(key, keys) {
				require.NotContains(t, err.Error(), secret)
			}
			return
		}
		s, err := seal.New(cfg)
		require.NoError(t, err)
		require.Equal(t, key != "" || keys != "", s.HasKey())
		if !s.HasKey() {
			return
		}
		sealed, err := s.Seal([]byte("1"), first)
		require.NoError(t, err)
		cfg.Keys = setting.Secret(strings.TrimSuffix("a-new-key:"+digits("d")+","+keys, ","))
		if cfg.Validate() != nil {
			return // encryption.keys already has this id
		}
		s, err = seal.New(cfg)
		require.NoError(t, err)
		opened, err := s.Open(sealed, first)
		require.NoError(t, err)
		require.Equal(t, "1", string(opened))
	})
}

// secrets returns the texts that an error must not contain: each text that is long enough to be a
// key.
func secrets(key, keys string) (all []string) {
	for _, pair := range append(strings.Split(keys, ","), key) {
		for part := range strings.SplitSeq(pair, ":") {
			if part = strings.TrimSpace(part); len(part) >= seal.KeyBytes*2-1 {
				all = append(all, part)
			}
		}
	}
	return all
}

// FuzzOpen opens arbitrary envelopes, and a valid envelope with one changed byte. Open returns the
// original payload of a changed envelope, or an error. It returns an error for another message.
func FuzzOpen(f *testing.F) {
	s, err := seal.New(seal.Config{Key: setting.Secret(digits("a")), Keys: setting.Secret("one:" + digits("b"))})
	require.NoError(f, err)
	valid, err := s.Seal([]byte(`{"a":1}`), first)
	require.NoError(f, err)
	f.Add(valid, "q", "p", 40, byte('x'))
	f.Add([]byte(`{"encrypted":"","iv":"AAAAAAAAAAAAAAAAAAAAAA==","authTag":"AAAAAAAAAAAAAAAAAAAAAA==","keyId":"one"}`), "", "", 0, byte(0))
	f.Add([]byte(`null`), "qp", "", 7, byte('"'))
	f.Fuzz(func(t *testing.T, text []byte, queue, partition string, at int, flip byte) {
		message := seal.Message{Queue: queue, Partition: partition, ID: first.ID}
		_, _ = s.Open(text, message) // it does not panic
		sealed, err := s.Seal(text, message)
		require.NoError(t, err)
		opened, err := s.Open(sealed, message)
		require.NoError(t, err)
		require.True(t, bytes.Equal(text, opened))
		for _, other := range []seal.Message{
			{Queue: queue + "x", Partition: partition, ID: message.ID}, {Queue: queue, Partition: "x" + partition, ID: message.ID},
			{Queue: queue + partition, ID: message.ID}, {Queue: queue, Partition: partition, ID: [16]byte{2}},
		} {
			if other != message {
				_, err = s.Open(sealed, other)
				require.Error(t, err, other)
			}
		}
		sealed[uint(at)%uint(len(sealed))] ^= flip
		if opened, err = s.Open(sealed, message); err == nil {
			require.True(t, bytes.Equal(text, opened))
		}
	})
}
