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

// document is the OpenAPI document with the version of this server.
type document struct {
	body []byte
	// tag is the ETag, a hash of body. It is weak, because a compressed answer has the same one.
	tag string
}

func newDocument(version string) document {
	body := openapi.WithVersion(version)
	sum := sha256.Sum256(body)
	return document{body: body, tag: `W/"` + hex.EncodeToString(sum[:12]) + `"`}
}

// openapi serves GET /openapi.json. It answers 304 when If-None-Match names the
// document.
func (s *Server) openapi(c echo.Context) error {
	h := c.Response().Header()
	h.Set("ETag", s.document.tag)
	h.Set("Cache-Control", "no-cache")
	h.Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
	http.ServeContent(c.Response(), c.Request(), "openapi.json", time.Time{}, bytes.NewReader(s.document.body))
	return nil
}
