package wire

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/access/identity"
)

const (
	// KeepAlive is the time after which a stream without events sends a comment.
	KeepAlive = 15 * time.Second
	// streamRetry is the pause after which a client should connect again when its stream has ended.
	streamRetry = 2 * time.Second
)

// Streams has the values that all event streams share.
type Streams struct {
	// Ending is closed when the server stops. Then each stream ends at once.
	Ending <-chan struct{}
	// NextRevocation returns a channel that is closed at the next revocation of a token. A stream calls it before
	// identity.Valid.
	NextRevocation func() <-chan struct{}
	// WriteTimeout limits one write. The stream of a client that does not read ends.
	WriteTimeout time.Duration
}

// IsEnding reports whether the server stops.
func (s Streams) IsEnding() bool {
	select {
	case <-s.Ending:
		return true
	default:
		return false
	}
}

// End returns the latest end of a stream: after its parameter timeout in milliseconds, after maxStream, or
// when the rights of its principal end.
func End(c echo.Context) time.Time {
	end := maxStream
	if millis := LeadingInt(c.QueryParam("timeout"), 0); millis > 0 {
		end = min(end, time.Duration(min(millis, int(maxStream/time.Millisecond)))*time.Millisecond)
	}
	if p := identity.From(c.Request().Context()); p != nil && !p.EndsAt.IsZero() {
		end = max(0, min(end, time.Until(p.EndsAt)))
	}
	return time.Now().Add(end)
}

// maxStream is the longest duration of a stream. Then the client connects again.
const maxStream = 24 * time.Hour

// The reasons why a stream ends. The last event of the stream has the reason.
const (
	EndShutdown     = "shutdown"     // the server stops
	EndUnauthorized = "unauthorized" // the token expired or was revoked
	EndTimeout      = "timeout"      // the parameter timeout, or 24 hours
	EndOverloaded   = "overloaded"   // too many requests wait or are in flight; the client may connect again after retryAfter
	EndError        = "error"        // the member error of the event says what failed
)

// ReasonOf returns why a stream ends at the instant that End returned.
func ReasonOf(ctx context.Context) string {
	if identity.Valid(ctx) != nil {
		return EndUnauthorized
	}
	return EndTimeout
}

// EventStream is an answer with Server-Sent Events. Only the goroutine of its handler may use it.
type EventStream struct {
	response *echo.Response
	control  *http.ResponseController
	timeout  time.Duration
	buffer   []byte
}

const eventStreamType = "text/event-stream"

// streamHeaders has the headers of each stream. X-Accel-Buffering makes nginx send each event to the client at once.
var streamHeaders = http.Header{"Content-Type": {eventStreamType}, "Cache-Control": {"no-store"}, "X-Accel-Buffering": {"no"}}

// Start begins the answer with status 200. Afterwards the handler cannot send an error status.
func (s Streams) Start(c echo.Context) (*EventStream, error) {
	header := c.Response().Header()
	maps.Copy(header, streamHeaders)
	stream := &EventStream{response: c.Response(), control: http.NewResponseController(c.Response()), timeout: s.WriteTimeout}
	c.Response().WriteHeader(http.StatusOK)
	stream.buffer = strconv.AppendInt(append(stream.buffer, "retry: "...), streamRetry.Milliseconds(), 10)
	stream.buffer = append(stream.buffer, "\n\n"...)
	return stream, stream.Flush()
}

// Append adds an event to the next Flush. An empty id is not sent. data may have several lines, which end
// with LF, CR or CR LF. The client reads each line end as LF.
func (s *EventStream) Append(kind, id string, data []byte) {
	if id != "" {
		s.buffer = append(append(append(s.buffer, "id: "...), id...), '\n')
	}
	s.buffer = append(append(append(s.buffer, "event: "...), kind...), '\n')
	for more := true; more; {
		line := data
		end := bytes.IndexAny(data, "\r\n")
		if more = end >= 0; more {
			line = data[:end]
			if data = data[end:]; bytes.HasPrefix(data, []byte("\r\n")) {
				data = data[1:]
			}
			data = data[1:]
		}
		s.buffer = append(append(append(s.buffer, "data: "...), line...), '\n')
	}
	s.buffer = append(s.buffer, '\n')
}

// AppendJSON is like Append, with a value that it encodes like the answers of JSON.
func (s *EventStream) AppendJSON(kind, id string, value any) error {
	data, err := json.Marshal(value, encoding)
	if err == nil {
		s.Append(kind, id, data)
	}
	return err
}

// KeepAlive sends a comment, which a client ignores.
func (s *EventStream) KeepAlive() error {
	s.buffer = append(s.buffer, ":\n\n"...)
	return s.Flush()
}

// Flush writes the appended events. It blocks while the client does not read, at most for WriteTimeout.
// After an error the handler must return.
func (s *EventStream) Flush() error {
	if len(s.buffer) == 0 {
		return nil
	}
	_ = s.control.SetWriteDeadline(time.Now().Add(s.timeout)) // fails only in tests without a connection
	_, err := s.response.Write(s.buffer)
	if err == nil {
		err = s.control.Flush()
	}
	if s.buffer = s.buffer[:0]; cap(s.buffer) > maxStreamBuffer {
		s.buffer = nil
	}
	return err
}

// maxStreamBuffer is the largest buffer that an idle stream keeps.
const maxStreamBuffer = 4 << 10
