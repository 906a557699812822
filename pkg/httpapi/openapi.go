package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/httpapi/openapi"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
)

// documentTag is the ETag of the OpenAPI document. It depends only on the bytes.
var documentTag = func() string {
	sum := sha256.Sum256(openapi.Document)
	return `"` + hex.EncodeToString(sum[:12]) + `"`
}()

// openapi serves GET /openapi.json. It answers 304 when If-None-Match names the
// document.
func (s *Server) openapi(c echo.Context) error {
	h := c.Response().Header()
	h.Set("ETag", documentTag)
	h.Set("Cache-Control", "no-cache")
	for known := range strings.SplitSeq(c.Request().Header.Get("If-None-Match"), ",") {
		known = strings.TrimPrefix(strings.TrimSpace(known), "W/")
		if known == documentTag || known == "*" {
			return c.NoContent(http.StatusNotModified)
		}
	}
	return wire.Answer(c, http.StatusOK, openapi.Document)
}
