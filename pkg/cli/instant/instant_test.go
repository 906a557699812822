package instant

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseReadsTimesThatUsersType(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 16, 8, 41, 27, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"now": now, "15m": now.Add(-15 * time.Minute), "15m ago": now.Add(-15 * time.Minute), "2d": now.AddDate(0, 0, -2), "-1h": now.Add(time.Hour),
		"2026-05-16T08:00:00+02:00": now.Add(-161*time.Minute - 27*time.Second), "1.5h ago": now.Add(-90 * time.Minute),
	} {
		at, err := Parse(text, now)
		require.NoError(t, err, text)
		require.True(t, want.Equal(at), "%s: %s", text, at)
	}
	for _, text := range []string{"", "yesterday", "15", "ago", "2.5d", "d", "2026-05-16"} {
		_, err := Parse(text, now)
		require.ErrorContains(t, err, "must be an instant", text)
	}
}
