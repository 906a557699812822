package wire

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"os"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/process/inflight"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const memoryKey = "belfry.memory" // the *inflight.Reservation of a request

// CountMemory gives each request a reservation of memory, and releases it after the answer was written. While the
// dashboard serves a page, it sends requests to the API. Such a request uses the reservation of the page.
func CountMemory(b *inflight.Budget) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			memory := inflight.From(c.Request().Context())
			if memory == nil {
				memory = b.Reservation()
				defer memory.End()
			}
			c.Set(memoryKey, memory)
			c.Response().Writer = &countedWriter{c.Response().Writer, memory}
			return next(c)
		}
	}
}

// Memory returns the memory that a request and its answer reserve.
func Memory(c echo.Context) *inflight.Reservation {
	if r, ok := c.Get(memoryKey).(*inflight.Reservation); ok {
		return r
	}
	return inflight.NewBudget(math.MaxInt64, math.MaxInt64).Reservation() // a test calls the handler without a server
}

// CountReads makes the rows that a handler reads from the database count as memory of its answer, as the rows arrive.
func CountReads(c echo.Context) {
	c.SetRequest(c.Request().WithContext(inflight.With(c.Request().Context(), Memory(c))))
}

// IgnoreReads makes the rows that a handler reads not count. A request that a page of the dashboard sends inherits
// CountReads from the page.
func IgnoreReads(c echo.Context) {
	if ctx := c.Request().Context(); inflight.From(ctx) != nil {
		c.SetRequest(c.Request().WithContext(inflight.With(ctx, nil)))
	}
}

// Covered returns a writer for an answer that is in memory in another form. It reserves memory for the whole answer, as the
// answer is written.
func Covered(c echo.Context) http.ResponseWriter {
	return &coveredWriter{ResponseWriter: c.Response(), memory: Memory(c)}
}

type coveredWriter struct {
	http.ResponseWriter
	memory  *inflight.Reservation
	written int
}

// Write reserves memory for all bytes written so far, and writes p.
func (w *coveredWriter) Write(p []byte) (int, error) {
	if w.written += len(p); w.written > inflight.FreeAnswer {
		w.memory.Cover(w.written)
	}
	return w.ResponseWriter.Write(p)
}

// countedWriter reserves memory for each write above inflight.FreeAnswer. An event stream reserves memory for its events
// itself.
type countedWriter struct {
	http.ResponseWriter
	memory *inflight.Reservation
}

// Unwrap lets http.ResponseController find the connection.
func (w *countedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write reserves memory for p if p is large, and writes p.
func (w *countedWriter) Write(p []byte) (int, error) {
	if len(p) > inflight.FreeAnswer && w.Header().Get(echo.HeaderContentType) != eventStreamType {
		w.memory.Cover(len(p))
	}
	return w.ResponseWriter.Write(p)
}

// meteredBody reserves memory for the bytes of a body as they arrive.
type meteredBody struct {
	io.Reader
	memory *inflight.Body
	// woken means that the last Read ended because the read deadline had passed.
	woken bool
}

// Read returns queue.MemoryFull if no memory is left, and ErrLostPlace if another body got the memory of this body.
func (m *meteredBody) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	m.woken = errors.Is(err, os.ErrDeadlineExceeded)
	ok := m.memory.Take(n)
	if ok && errors.Is(err, io.EOF) {
		ok = m.memory.Arrived()
	}
	switch {
	case m.memory.Lost():
		return 0, ErrLostPlace
	case !ok:
		return 0, queue.MemoryFull()
	}
	return n, err
}

// ErrLostPlace is the error of a body whose memory was given to another body. The context of the request may have ended too.
var ErrLostPlace error = &queue.Error{
	Code: queue.CodeOverloaded, RetryAfter: time.Second,
	Message: "the requests in flight use all memory of http.max_inflight_bytes, and this body arrived slowly or its sender used more than its share: repeat the request later",
}

// drain reads and discards the rest of a body. Many clients read the answer only after they have sent the whole body. The limit
// and the deadline of the body still apply.
func drain(body io.Reader) { _, _ = io.Copy(io.Discard, body) }

// listedRow is the size of a listed queue or group with long names. AnswerCopies makes it enough for names that JSON escapes.
const listedRow = 700

// ReserveRows reserves memory for the rows of a list that comes from memory. Rows of the database reserve it as they arrive
// (see postgres.Pool.Query). Errors: CodeOverloaded if no memory is left.
func ReserveRows(ctx context.Context, rows int) error {
	if memory := inflight.From(ctx); memory != nil && !memory.Read(rows*listedRow) {
		return queue.MemoryFull()
	}
	return nil
}
