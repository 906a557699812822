package queue_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

func TestParseIDAcceptsOnlyTheHyphenatedForm(t *testing.T) {
	t.Parallel()
	const text = "0190f5fe-1c2b-7abc-8def-0123456789ab"
	want := queue.ID{0x01, 0x90, 0xf5, 0xfe, 0x1c, 0x2b, 0x7a, 0xbc, 0x8d, 0xef, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab}
	for _, good := range []string{text, strings.ToUpper(text)} {
		id, err := queue.ParseID(good)
		require.NoError(t, err)
		require.Equal(t, want, id)
		require.Equal(t, text, id.String(), "the text form is in lower case")
	}
	for name, bad := range map[string]string{
		"empty":               "",
		"a word":              "not-a-uuid",
		"without hyphens":     strings.ReplaceAll(text, "-", ""),
		"in braces":           "{" + text + "}",
		"as a URN":            "urn:uuid:" + text,
		"too short":           text[:35],
		"too long":            text + "0",
		"space in front":      " " + text[:35],
		"space behind":        text[:35] + " ",
		"a letter beyond f":   "g" + text[1:],
		"hyphen out of place": "0190f5f-e1c2b-7abc-8def-0123456789ab",
		"NUL inside":          text[:35] + "\x00",
		"36 hex digits":       strings.Repeat("a", 36),
		"a sign":              "+190f5fe-1c2b-7abc-8def-0123456789ab",
	} {
		id, err := queue.ParseID(bad)
		require.ErrorContains(t, err, "is not a UUID", name)
		require.True(t, id.IsZero(), name)
	}
}

func TestZeroIDMeansNone(t *testing.T) {
	t.Parallel()
	require.True(t, queue.ID{}.IsZero())
	require.False(t, queue.ID{15: 1}.IsZero())
	require.False(t, queue.ID{0: 1}.IsZero())
}

func TestNewIDsAreOrdered(t *testing.T) {
	t.Parallel()
	previous := queue.NewID()
	require.Equal(t, uuid.Version(7), uuid.UUID(previous).Version())
	for range 20_000 {
		next := queue.NewID()
		require.Negative(t, bytes.Compare(previous[:], next[:]), "%s was made before %s", previous, next)
		previous = next
	}
}

func TestNewIDsOfManyGoroutinesAreDistinct(t *testing.T) {
	t.Parallel()
	const makers, each = 8, 2_000
	made := make(chan []queue.ID, makers)
	for range makers {
		go func() {
			ids := make([]queue.ID, each)
			for i := range ids {
				ids[i] = queue.NewID()
			}
			made <- ids
		}()
	}
	seen := make(map[queue.ID]bool, makers*each)
	for range makers {
		for _, id := range <-made {
			require.False(t, seen[id], "%s was made twice", id)
			seen[id] = true
		}
	}
}
