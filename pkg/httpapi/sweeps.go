package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// sweptJSON is what sweeps did to a queue since it was made. It is ours.
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

// sweeps serves GET /api/v1/status/sweeps, which is ours: whether something is
// being swept, and when the next time is.
func (s *Server) sweeps(c echo.Context) error {
	found, err := s.deps.Resources.Sweeps(c.Request().Context())
	if err != nil {
		return err
	}
	out := struct {
		Sweeps []sweepJSON `json:"sweeps"`
	}{make([]sweepJSON, len(found))}
	for i, one := range found {
		out.Sweeps[i] = sweepJSON{one.Job, one.Running, formatMillis(one.NextAt)}
	}
	return answerValue(c, http.StatusOK, out)
}
