package wire

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

func requireInvalid(t *testing.T, err error) {
	t.Helper()
	require.Equal(t, queue.CodeInvalid, queue.CodeOf(err))
}

func TestNamesAreLimited(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"":                       "",
		"orders":                 "",
		strings.Repeat("x", 255): "",
		strings.Repeat("x", 256): "is 256 bytes long: at most 255 are allowed",
		strings.Repeat("ü", 127): "",
		strings.Repeat("ü", 128): "is 256 bytes long: at most 255 are allowed",
		"a\x00b":                 "contains a NUL character",
	} {
		err := CheckName("queue", name)
		if want == "" {
			require.NoError(t, err, "%q", name)
			continue
		}
		requireInvalid(t, err)
		require.ErrorContains(t, err, "queue "+want)
	}
}

func TestTextReadsStringsOfQueenMQClients(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`""`: "", `"a"`: "a", `"ü\u00fc\n"`: "üü\n", `"\ud83d\ude00"`: "😀",
		`"\ud83d"`: "\uFFFD", `"x\ude00y"`: "x\uFFFDy", `"\u0000"`: "\x00", `"\/"`: "/",
	} {
		got, ok := Text([]byte(raw))
		require.True(t, ok, raw)
		require.Equal(t, want, got, raw)
	}
	for _, raw := range []string{"1", "null", "true", "[]", "{}"} {
		_, ok := Text([]byte(raw))
		require.False(t, ok, raw)
	}
}

func TestWholeNumbersMayHaveAnExponent(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]int64{
		"0": 0, "-0": 0, "300": 300, "3e2": 300, "300.0": 300, "-7": -7, "9223372036854775807": 1<<63 - 1,
	} {
		got, err := WholeNumber("seconds", []byte(raw))
		require.NoError(t, err, raw)
		require.Equal(t, want, got, raw)
	}
	for _, raw := range []string{"0.5", "1e-1", "1e300", "9223372036854775808", `"1"`, "true", "[1]", "{}"} {
		_, err := WholeNumber("seconds", []byte(raw))
		requireInvalid(t, err)
		require.ErrorContains(t, err, "seconds must be a whole number, not "+raw)
	}
	_, err := WholeNumber("seconds", []byte(`"`+strings.Repeat("9", 500)+`"`))
	require.Less(t, len(err.Error()), 150, "a long value is shortened")
	require.Equal(t, queue.CodeInvalid, queue.CodeOf(err))
}
