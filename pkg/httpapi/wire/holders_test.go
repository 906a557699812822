package wire

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/queue"
)

func TestHoldersRememberTheLatestLeases(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "192.0.2.1:99"
	r.Header.Set("User-Agent", strings.Repeat("a", 200))
	c := echo.New().NewContext(r, httptest.NewRecorder())
	var h Holders
	ids := make([]queue.ID, 10_002)
	h.Took(c, queue.ID{})
	for i := range ids {
		ids[i] = queue.NewID()
		h.Took(c, ids[i])
	}
	for i, id := range ids {
		one, known := h.Of(id)
		require.Equal(t, i >= 2, known, i)
		if known {
			require.Equal(t, api.Holder{Caller: "192.0.2.1", UserAgent: strings.Repeat("a", 100)}, one)
		}
	}
	_, known := h.Of(queue.ID{})
	require.False(t, known)
}
