package wire

import (
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

// CountMemory gives each request a reservation, and returns it after the answer was written. A request inside another
// one, as the dashboard sends them, uses the reservation of that one.
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
	return inflight.NewBudget(math.MaxInt64, math.MaxInt64).Reservation() // a handler without a server
}

// CountReads makes what the database returns to a handler count as its answer, as it arrives.
func CountReads(c echo.Context) {
	c.SetRequest(c.Request().WithContext(inflight.With(c.Request().Context(), Memory(c))))
}

// IgnoreReads ends CountReads of the request of a page that sent this one.
func IgnoreReads(c echo.Context) {
	if ctx := c.Request().Context(); inflight.From(ctx) != nil {
		c.SetRequest(c.Request().WithContext(inflight.With(ctx, nil)))
	}
}

// Covered returns a writer for an answer that is in memory in another form. All of it counts, as it is written.
func Covered(c echo.Context) http.ResponseWriter {
	return &coveredWriter{ResponseWriter: c.Response(), memory: Memory(c)}
}

type coveredWriter struct {
	http.ResponseWriter
	memory  *inflight.Reservation
	written int
}

// Write writes a piece of the answer.
func (w *coveredWriter) Write(p []byte) (int, error) {
	if w.written += len(p); w.written > inflight.FreeAnswer {
		w.memory.Cover(w.written)
	}
	return w.ResponseWriter.Write(p)
}

// countedWriter makes sure that each piece of an answer above inflight.FreeAnswer is reserved. A stream of events reserves
// its events itself.
type countedWriter struct {
	http.ResponseWriter
	memory *inflight.Reservation
}

// Unwrap lets http.ResponseController find the connection.
func (w *countedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write writes a piece of the answer.
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
	// woken: a Read ended because its deadline was over.
	woken bool
}

// Read returns queue.MemoryFull when no memory is left, and ErrLostPlace when the body has lost it.
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

// ErrLostPlace is the error of a body that lost its memory to another one. It may have ended the context of the request.
var ErrLostPlace error = &queue.Error{
	Code: queue.CodeOverloaded, RetryAfter: time.Second,
	Message: "the requests in flight use all of http.max_inflight_bytes, and this body arrived slowly or its sender had more than a share: repeat the request later",
}

// drain reads the rest of a body without keeping it, so that the client reads the answer: many clients
// send the whole body first. The limit and the deadline of the body still hold.
func drain(body io.Reader) { _, _ = io.Copy(io.Discard, body) }
