package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/httpapi/openapi"
)

// documentTag is the ETag of the OpenAPI document: it changes with its bytes.
var documentTag = func() string {
	sum := sha256.Sum256(openapi.Document)
	return `"` + hex.EncodeToString(sum[:12]) + `"`
}()

// openapi serves GET /openapi.json. A caller that has the document already, by
// its If-None-Match, gets 304.
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
	return answer(c, http.StatusOK, openapi.Document)
}
