package httpapi

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// answerValue sends a value as JSON.
func answerValue(c echo.Context, status int, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encoding the answer of %s: %w", c.Path(), err)
	}
	return answer(c, status, body)
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
