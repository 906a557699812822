package httpapi

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRateCoversTheLastMinute(t *testing.T) {
	t.Parallel()
	var r rate
	at := time.Unix(1_000_000, 0)
	require.Zero(t, r.perSecond(at))
	r.add(at, 60)
	r.add(at.Add(30*time.Second), 30)
	require.InDelta(t, 1.5, r.perSecond(at.Add(59*time.Second)), 0)
	require.InDelta(t, 0.5, r.perSecond(at.Add(60*time.Second)), 0, "the first second is outside the minute")
	r.add(at.Add(60*time.Second), 1)
	require.InDelta(t, 0.52, r.perSecond(at.Add(60*time.Second)), 0)
	require.Zero(t, r.perSecond(at.Add(time.Hour)))
}
