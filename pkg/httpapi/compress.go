package httpapi

import (
	"net/http"

	"github.com/klauspost/compress/gzhttp"
	"github.com/klauspost/compress/gzip"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
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
			routes[i].handler = wire.Compress(wrap, routes[i].handler)
		}
	}
	return routes
}
