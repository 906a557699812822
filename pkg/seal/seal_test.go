package seal_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/seal"
)

func sealer(t *testing.T, digit string) *seal.Sealer {
	t.Helper()
	s, err := seal.New(seal.Config{Key: strings.Repeat(digit, 64)})
	require.NoError(t, err)
	return s
}

func TestOpenReturnsTheSealedBytes(t *testing.T) {
	t.Parallel()
	s := sealer(t, "a")
	for _, payload := range [][]byte{[]byte("null"), []byte(`{"b":1.0,"a":"é\u0000"}`), bytes.Repeat([]byte("x"), 1<<20)} {
		sealed, err := s.Seal(payload)
		require.NoError(t, err)
		require.True(t, json.Valid(sealed))
		require.False(t, bytes.Contains(sealed, payload))
		opened, err := s.Open(sealed)
		require.NoError(t, err)
		require.Equal(t, payload, opened)
		again, err := s.Seal(payload)
		require.NoError(t, err)
		require.NotEqual(t, sealed, again, "each envelope has its own iv")
	}
}

func TestOpenRejectsOtherKeysAndChangedEnvelopes(t *testing.T) {
	t.Parallel()
	sealed, err := sealer(t, "a").Seal([]byte(`{"secret":true}`))
	require.NoError(t, err)
	_, err = sealer(t, "b").Open(sealed)
	require.Error(t, err, "another key")
	var none *seal.Sealer
	_, err = none.Open(sealed)
	require.ErrorIs(t, err, seal.ErrNoKey)
	for _, damaged := range []string{`{}`, `7`, `{"encrypted":"","iv":"","authTag":""}`} {
		_, err = sealer(t, "a").Open([]byte(damaged))
		require.Error(t, err, damaged)
	}
	var e map[string][]byte
	require.NoError(t, json.Unmarshal(sealed, &e))
	e["encrypted"][0] ^= 1
	changed, err := json.Marshal(e)
	require.NoError(t, err)
	_, err = sealer(t, "a").Open(changed)
	require.Error(t, err, "one bit changed")
}

func TestValidateChecksTheKeyAndDoesNotShowIt(t *testing.T) {
	t.Parallel()
	require.NoError(t, seal.Config{}.Validate())
	for _, key := range []string{"feedbeef", strings.Repeat("g", 64), strings.Repeat("a", 63)} {
		err := seal.Config{Key: key}.Validate()
		require.ErrorContains(t, err, "64 hexadecimal digits")
		require.NotContains(t, err.Error(), key)
	}
}
