package wire

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/engine/portable"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// BodyReader reads request bodies.
type BodyReader struct {
	// MaxBytes limits a body, unless LimitBody has set a lower limit. A larger body is refused with CodeTooLarge.
	MaxBytes int64
	// Timeout is http.body_timeout.
	Timeout time.Duration
	// AnyJSON accepts JSON that some clients cannot read; see http.allow_any_json.
	AnyJSON bool
}

// firstBuffer is the largest buffer that Read allocates because of a Content-Length. The buffer of a
// longer body grows as its bytes arrive.
const firstBuffer = 64 << 10

// errEmptyBody is the error for a body of zero bytes.
var errEmptyBody = queue.Invalidf("Empty request body")

// ReadObject reads a body that must be a JSON object; see Read and Object.
func (r BodyReader) ReadObject(c echo.Context, member func(name string, value jsontext.Value) error) error {
	body, err := r.Read(c)
	if err != nil {
		return err
	}
	return Object(body, member)
}

// ReadOptionalObject is like ReadObject, but also accepts an empty body.
func (r BodyReader) ReadOptionalObject(c echo.Context, member func(name string, value jsontext.Value) error) error {
	if request := c.Request(); request.ContentLength == 0 || request.Body == nil {
		return nil
	}
	err := r.ReadObject(c, member)
	if errors.Is(err, errEmptyBody) {
		return nil
	}
	return err
}

// Read returns the whole body without a byte order mark. If the client has disconnected, it returns
// the error of the context. The other errors are:
//
//   - CodeEncoded: the body is compressed.
//   - CodeTooLarge: the body is above the limit.
//   - CodeTooSlow: http.body_timeout has passed.
//   - CodeOverloaded: no memory of http.max_inflight_bytes is left.
//   - ErrLostPlace: another body got the memory of this body.
//   - CodeInvalid: the body is empty, is not UTF-8, or has JSON that some clients cannot read.
func (r BodyReader) Read(c echo.Context) ([]byte, error) {
	request := c.Request()
	if encoding := strings.Join(request.Header.Values(echo.HeaderContentEncoding), ", "); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return nil, &queue.Error{Code: queue.CodeEncoded, Message: "the body has the Content-Encoding " + Clip(encoding) +
			", which is not accepted: send it without compression"}
	}
	buf := &bytes.Buffer{}
	if 0 < request.ContentLength {
		buf.Grow(int(min(request.ContentLength, firstBuffer)) + bytes.MinRead)
	}
	control := http.NewResponseController(c.Response().Writer)
	memory := Memory(c).Body(Caller(c), func() { _ = control.SetReadDeadline(past) })
	body := http.MaxBytesReader(c.Response(), request.Body, r.limit(c))
	metered := &meteredBody{Reader: body, memory: memory}
	_, err := buf.ReadFrom(metered)
	var tooLarge *http.MaxBytesError
	var full *queue.Error
	switch {
	case memory.Lost():
		buf = nil
		c.Response().Header().Set("Connection", "close") // the read deadline of the connection is over
		if !metered.woken {
			_ = control.SetReadDeadline(time.Now().Add(r.Timeout))
			drain(body)
		}
		return nil, ErrLostPlace
	case errors.As(err, &full):
		buf = nil
		drain(body)
		return nil, full
	case errors.As(err, &tooLarge):
		return nil, r.tooLarge(tooLarge.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded): // net/http has ended the context too
		return nil, &queue.Error{
			Code: queue.CodeTooSlow, Err: err,
			Message: "the body did not arrive in time: send fewer items per call, or raise http.body_timeout",
		}
	case err != nil && request.Context().Err() != nil:
		return nil, request.Context().Err()
	case err != nil:
		return nil, queue.Invalidf("the body ended early: %v", err)
	}
	return r.checked(bytes.TrimPrefix(buf.Bytes(), byteOrderMark))
}

// past is a deadline that ends a blocked Read at once.
var past = time.Unix(1, 0)

// limitKey is the key under which LimitBody stores the limit.
const limitKey = "belfry.body.limit"

// LimitBody limits the body of a request. If BodyReader.MaxBytes is lower, MaxBytes is the limit.
func LimitBody(c echo.Context, bytes int64) { c.Set(limitKey, bytes) }

func (r BodyReader) limit(c echo.Context) int64 {
	if limit, ok := c.Get(limitKey).(int64); ok {
		return min(limit, r.MaxBytes)
	}
	return r.MaxBytes
}

// tooLarge returns the error for a body with more than limit bytes.
func (r BodyReader) tooLarge(limit int64) error {
	advice := "send fewer items per call, or raise http.max_body_bytes"
	if limit < r.MaxBytes {
		advice = "send a smaller body, because this request never needs a larger one"
	}
	return &queue.Error{Code: queue.CodeTooLarge, Message: fmt.Sprintf("the body is larger than %d bytes: %s", limit, advice)}
}

var byteOrderMark = []byte("\ufeff")

// values has the paths of the values of clients in the bodies of all routes; see portable.Rules.
var values = []string{
	"items[].payload", "operations[].payload", "operations[].data", "operations[].items[].payload", "operations[].items[].data",
	"push_items[].payload", "push_items[].data", "state_ops[].value", "data", "payload",
}

// texts has the paths of free texts. A consumer that shortens a text may cut a character into halves. The server replaces the
// half by U+FFFD instead of refusing the ack, because a message whose ack is refused would be delivered again and again.
var texts = []string{"error", "acknowledgments[].error", "operations[].error", "ack.error", "reason"}

// checked returns the body, or an error if it is empty, is not UTF-8, or has JSON that some clients cannot read.
func (r BodyReader) checked(body []byte) ([]byte, error) {
	if len(body) == 0 {
		return nil, errEmptyBody
	}
	if !utf8.Valid(body) {
		return nil, queue.Invalidf("Invalid JSON: byte %d is not UTF-8", firstInvalid(body)+1)
	}
	rules := portable.Rules{Any: r.AnyJSON, Values: values, Texts: texts}
	if flaw := rules.Find("", body); flaw != nil {
		return nil, queue.Invalidf("%v", flaw)
	}
	return body, nil
}

// firstInvalid returns the index of the first byte that is not UTF-8. b must contain such a byte.
func firstInvalid(b []byte) int {
	at := 0
	for {
		r, size := utf8.DecodeRune(b[at:])
		if r == utf8.RuneError && size <= 1 {
			return at
		}
		at += size
	}
}
