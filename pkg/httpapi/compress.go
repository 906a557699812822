package httpapi

import (
	"net/http"
	"strings"

	"github.com/klauspost/compress/gzhttp"
	"github.com/klauspost/compress/gzip"
	"github.com/labstack/echo/v4"
	"go.uber.org/zap"
)

// compressible are the media types that are compressed, from 1 KiB on. An event stream is not one of them.
var compressible = []string{"text/html", "text/css", "text/javascript", "text/plain", "application/json", "image/svg+xml"}

// compressed returns the routes, of which each GET compresses its answer if the client can read that. No route of messages may be
// among them: such a route must not wait for a compressor, and its answer has payloads.
//
// An attacker who sees the length of compressed answers on the network could guess a secret in them, if text of the attacker is
// in the same answer (BREACH). So an answer is not compressed if a page of another site caused the request, or if the handler
// says no-transform.
func (s *Server) compressed(routes []Route) []Route {
	if !s.cfg.Compression {
		return routes
	}
	wrap, err := gzhttp.NewWrapper(gzhttp.ContentTypes(compressible), gzhttp.CompressionLevel(gzip.BestSpeed))
	if err != nil { // the options are constant
		s.start.Log.Error("answers are not compressed", zap.Error(err))
		return routes
	}
	for i := range routes {
		if routes[i].Method == http.MethodGet {
			routes[i].handler = compress(wrap, routes[i].handler)
		}
	}
	return routes
}

// compress returns a handler that sends the answer of next through wrap.
func compress(wrap func(http.Handler) http.HandlerFunc, next echo.HandlerFunc) echo.HandlerFunc {
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
