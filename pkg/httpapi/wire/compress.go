package wire

import (
	"net/http"
	"strings"

	"github.com/klauspost/compress/gzhttp"
	"github.com/labstack/echo/v4"
)

// Compress returns a handler that sends the answer of next through wrap.
func Compress(wrap func(http.Handler) http.HandlerFunc, next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		if site := c.Request().Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
			return next(c)
		}
		response := c.Response()
		plain := response.Writer
		wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			defer func() { response.Writer = plain }()
			response.Writer = &transformable{w}
			err = next(c)
		})).ServeHTTP(&flushable{plain}, c.Request())
		return err
	}
}

// transformable is a writer of gzhttp. It turns the compression off if the header of the answer says no-transform.
type transformable struct{ http.ResponseWriter }

// Unwrap lets http.ResponseController find the connection.
func (w *transformable) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader writes the header.
func (w *transformable) WriteHeader(status int) {
	if strings.Contains(w.Header().Get(echo.HeaderCacheControl), "no-transform") {
		w.Header().Set(gzhttp.HeaderNoCompression, "1") // gzhttp removes it
	}
	w.ResponseWriter.WriteHeader(status)
}

// flushable is a writer to which gzhttp passes each Flush.
type flushable struct{ http.ResponseWriter }

// Unwrap lets http.ResponseController find the connection.
func (w *flushable) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush sends what was written so far.
func (w *flushable) Flush() {
	_ = http.NewResponseController(w.ResponseWriter).Flush() // the next Write returns the error of a lost connection
}
