package adminplane

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
)

// sweptJSON counts the messages that sweeps removed from a queue since it was
// created. Queen MQ does not have it.
type sweptJSON struct {
	Retention int64 `json:"retention"`
	Completed int64 `json:"completed"`
	Evicted   int64 `json:"evicted"`
	Unread    int64 `json:"unread"`
	Expired   int64 `json:"expired"`
	Skipped   int64 `json:"skipped"`
}

type sweepJSON struct {
	Job     string `json:"job"`
	Running bool   `json:"running"`
	NextAt  string `json:"nextAt"`
}

// Sweeps serves GET /api/v1/status/sweeps: for each kind of sweep whether it is
// running, and when it runs next. Queen MQ does not have it.
func (h *Handlers) Sweeps(c echo.Context) error {
	found, err := h.Resources.Sweeps(c.Request().Context())
	if err != nil {
		return err
	}
	out := struct {
		Sweeps []sweepJSON `json:"sweeps"`
	}{make([]sweepJSON, len(found))}
	for i, one := range found {
		out.Sweeps[i] = sweepJSON{one.Job, one.Running, wire.FormatMillis(one.NextAt)}
	}
	return wire.AnswerJSON(c, http.StatusOK, out)
}
