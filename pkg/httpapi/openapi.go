package httpapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/httpapi/openapi"
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
	h.Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
	http.ServeContent(c.Response(), c.Request(), "openapi.json", time.Time{}, bytes.NewReader(openapi.Document))
	return nil
}
