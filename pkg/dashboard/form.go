package dashboard

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/process/inflight"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// form are the fields of an action.
type form struct{ url.Values }

// lines replaces CRLF by LF in all values, because a browser sends each line end in a form as CRLF.
func lines(values url.Values) url.Values {
	for _, list := range values {
		for i := range list {
			list[i] = strings.ReplaceAll(list[i], "\r\n", "\n")
		}
	}
	return values
}

// readForm reads the form of a request, of up to most bytes. These bytes count for http.max_inflight_bytes until the
// caller calls end. Errors: CodeOverloaded, or an error with a text for the person.
func (d *Dashboard) readForm(w http.ResponseWriter, r *http.Request, most int64) (end func(), err error) {
	memory := d.deps.Memory.Reservation()
	control := http.NewResponseController(w)
	host, _, _ := net.SplitHostPort(r.RemoteAddr) // all people behind a proxy share one bound
	body := memory.Body("forms of "+host, func() { _ = control.SetReadDeadline(time.Unix(1, 0)) })
	r.Body = &meteredBody{http.MaxBytesReader(w, r.Body, most), body}
	err = r.ParseForm()
	if !body.Arrived() { // the budget gave its memory to another body and ended the read
		w.Header().Set("Connection", "close")
		err = queue.MemoryFull()
	}
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge) && most == maxForm:
		err = errors.New("the form is larger than 1 MiB: use the API for large payloads")
	case errors.As(err, &tooLarge):
		err = fmt.Errorf("the form is larger than %d bytes", most)
	case err != nil && queue.CodeOf(err) != queue.CodeOverloaded:
		err = errors.New("the form cannot be read")
	}
	return memory.End, err
}

// meteredBody is a body whose bytes count as memory in flight.
type meteredBody struct {
	io.ReadCloser
	memory *inflight.Body
}

func (b *meteredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if !b.memory.Take(n) {
		return 0, queue.MemoryFull()
	}
	return n, err
}
