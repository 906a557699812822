package httpapi

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

// limitTime bounds the time in which a client sends a body, by http.body_timeout, and the
// time in which it reads the answer, by http.write_timeout. A long poll waits between the
// two and has no limit here: net/http removes the read deadline when the whole body has
// arrived, and the write deadline when the answer is written.
//
// The time of a body that no handler reads is bounded too, because net/http reads the rest
// of a body before it answers.
func (s *Server) limitTime(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		response := c.Response()
		control := http.NewResponseController(response.Writer)
		if c.Request().ContentLength != 0 {
			_ = control.SetReadDeadline(time.Now().Add(s.cfg.BodyTimeout)) // fails only in tests without a connection
		}
		response.Writer = &timedWriter{ResponseWriter: response.Writer, control: control, timeout: s.cfg.WriteTimeout}
		return next(c)
	}
}

// timedWriter sets the write deadline when an answer begins.
type timedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	begun   bool
}

// Unwrap lets http.ResponseController find the connection.
func (w *timedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader begins the answer.
func (w *timedWriter) WriteHeader(status int) {
	w.begin()
	w.ResponseWriter.WriteHeader(status)
}

// Write begins the answer, unless WriteHeader did.
func (w *timedWriter) Write(p []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(p)
}

func (w *timedWriter) begin() {
	if !w.begun {
		w.begun = true
		_ = w.control.SetWriteDeadline(time.Now().Add(w.timeout))
	}
}
