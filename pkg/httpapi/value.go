package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// answerValue sends what value encodes to.
func answerValue(c echo.Context, status int, value any) error {
	buf := &bytes.Buffer{}
	encoder := json.NewEncoder(buf)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("encoding the answer to %s: %w", c.Path(), err)
	}
	return answer(c, status, bytes.TrimRight(buf.Bytes(), "\n"))
}

// millisOrNull is nil for the zero instant.
func millisOrNull(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	text := formatMillis(t)
	return &text
}

// idOrNull is nil for the zero id.
func idOrNull(id queue.ID) *string {
	if id.IsZero() {
		return nil
	}
	text := id.String()
	return &text
}

// textOrNull is nil for no text.
func textOrNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// payloadOrNull makes an absent payload null.
func payloadOrNull(payload []byte) json.RawMessage {
	if payload == nil {
		return json.RawMessage("null")
	}
	return payload
}
