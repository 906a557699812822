package wire_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
)

// If a client does not escape the plus of a zone, the server receives a space.
func TestASpaceBeforeAZoneCountsAsPlus(t *testing.T) {
	t.Parallel()
	want := time.Date(2026, 5, 16, 6, 41, 27, 0, time.UTC)
	for _, text := range []string{
		"2026-05-16T08:41:27+02:00", "2026-05-16T08:41:27.000000+02:00", "2026-05-16 08:41:27+02:00", "2026-05-16T08:41:27+0200",
		"2026-05-16 08:41:27+0200", "2026-05-16 08:41:27+02", "2026-05-16T08:41:27%2B02:00", "2026-05-16%2008:41:27+02:00", "2026-05-16+08:41:27+02:00",
		"2026-05-16T06:41:27+00:00", "2026-05-16T06:41:27Z", "2026-05-16+06:41:27",
	} {
		values, err := url.ParseQuery("at=" + text)
		require.NoError(t, err)
		at, err := wire.Instant("at", values.Get("at"))
		require.NoError(t, err, text)
		require.True(t, want.Equal(at), "%s is %s", text, at)
		at, err = wire.Timestamp("at", values.Get("at"), "")
		require.NoError(t, err, text)
		require.True(t, want.Equal(at), "%s is %s", text, at)
	}
	for _, text := range []string{"2026-05-16 02:00:00 x", "2026-05-16 02", "2026-05-16T08:41:27 ", " 02:00", "08:41:27 02:00", "2026-05-16T08:41:27 99:00", "2026-05-16T08:41:27  02:00"} {
		_, err := wire.Instant("at", text)
		if text == "2026-05-16T08:41:27 " {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, "at is", text)
	}
}
