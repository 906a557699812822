package operate

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/engine/deadletter"
	"github.com/belfry-mq/belfry/pkg/httpapi/deadletters"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
)

// PurgeToFile serves POST /api/v1/dlq/purge: a purge that answers with the dead letters, one JSON object on each line. It deletes
// what the connection has accepted. If it fails after the first line, it breaks the connection, so that the client does not take
// the part for the whole. Queen MQ does not have it.
func (h *Handlers) PurgeToFile(p *wire.Params) error {
	r, err := readPurge(p)
	if err != nil {
		return err
	}
	if r.dryRun {
		return errDryRunHere("DELETE /api/v1/dlq")
	}
	wire.CountReads(p)
	beginAudit(p, r.Filter, nil)
	ctx, cancel := context.WithDeadline(p.Ctx(), wire.End(p))
	defer cancel()
	to := &lineWriter{c: p, timeout: h.Streams.WriteTimeout}
	_, err = h.DeadLetters.PurgeTo(ctx, r.Filter, func(letters []deadletter.Letter) error {
		if p.Response().Committed && h.Streams.IsEnding() {
			return ended(wire.EndShutdown)
		}
		return to.write(letters)
	})
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		return to.begin()
	}
	if p.Response().Committed {
		_ = http.NewResponseController(p.Response()).SetWriteDeadline(time.Unix(1, 0))
	}
	return err
}

// lineWriter writes dead letters as lines of JSON.
type lineWriter struct {
	c       echo.Context
	timeout time.Duration
}

// begin writes the header of the answer, once.
func (w *lineWriter) begin() error {
	if r := w.c.Response(); !r.Committed {
		r.Header().Set(echo.HeaderContentType, "application/x-ndjson")
		r.Header().Set(echo.HeaderContentDisposition, `attachment; filename="dead-letters.ndjson"`)
		r.Header().Set("Cache-Control", "no-store")
		r.WriteHeader(http.StatusOK)
	}
	return nil
}

// write returns when the connection has accepted the lines.
func (w *lineWriter) write(letters []deadletter.Letter) error {
	var lines []byte
	for i := range letters {
		line, err := wire.Line(deadletters.Row(&letters[i]))
		if err != nil {
			return err
		}
		lines = append(lines, line...)
	}
	if err := w.begin(); err != nil {
		return err
	}
	control := http.NewResponseController(w.c.Response())
	_ = control.SetWriteDeadline(time.Now().Add(w.timeout)) // fails only in tests without a connection
	if _, err := w.c.Response().Write(lines); err != nil {
		return err
	}
	return control.Flush()
}
