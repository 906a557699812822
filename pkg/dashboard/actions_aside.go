package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/client/api/sheet"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
	"github.com/belfry-mq/belfry/pkg/process/backoff"
	"github.com/belfry-mq/belfry/pkg/process/inflight"
)

// rows returns the filter of the rejected rows that an action selects. An empty filter selects all rows.
func (f form) rows() map[string]string {
	selected := map[string]string{}
	for _, name := range []string{"id", "queue", "code"} {
		if f.Get(name) != "" {
			selected[name] = f.Get(name)
		}
	}
	return selected
}

// retryRows puts rejected rows back into the inbox.
func retryRows(f form) (change, error) {
	body := map[string]any{}
	for name, value := range f.rows() {
		body[name] = value
	}
	if len(body) == 0 {
		body["all"] = true
	}
	return change{method: http.MethodPost, path: "/api/v1/inbox/rejected/retry", body: body, done: "In the inbox again:"}, nil
}

// discardRows deletes rejected rows.
func discardRows(f form) change {
	query := url.Values{}
	for name, value := range f.rows() {
		query.Set(name, value)
	}
	if len(query) == 0 {
		query.Set("all", "true")
	}
	return change{method: http.MethodDelete, path: "/api/v1/inbox/rejected?" + query.Encode(), done: "Deleted:"}
}

// redriveStream serves POST redrive: it performs the action redrive, and passes on the progress that the API reports. It
// stops when the browser disconnects.
func (d *Dashboard) redriveStream(w http.ResponseWriter, r *http.Request) {
	caller, err := d.session(w, r)
	if err != nil {
		http.Error(w, errorText(err), http.StatusUnauthorized)
		return
	}
	if d.cfg.ReadOnly {
		http.Error(w, errReadOnly.Error(), http.StatusForbidden)
		return
	}
	end, err := d.readForm(w, r, maxForm)
	defer end()
	if err != nil {
		http.Error(w, errorText(err), http.StatusBadRequest)
		return
	}
	f := form{lines(r.PostForm)}
	wanted, err := redrive(f)
	if err == nil && f.Get("as-of") == "" {
		err = errNotCounted
	}
	if err == nil {
		err = d.client.Stream(caller, w, wanted.path+"/stream", wanted.body)
	}
	if err != nil {
		http.Error(w, errorText(err), http.StatusBadRequest)
	}
}

const (
	// exportPage is how many dead letters an export reads at once. If the messages are large, it reads fewer.
	exportPage = 500
	// exportWait is how long an export waits for a page when the server is overloaded. exportPause is the time between
	// two attempts.
	exportWait, exportPause = 20 * time.Second, 200 * time.Millisecond
	// exportWrite bounds the time of writing a page of an export to the browser.
	exportWrite = time.Minute
)

// export serves GET export: the dead letters of a filter, newest first, as one JSON object on each line. It
// keeps one page in memory. If it fails after the first page, it aborts the connection, so that the browser
// reports an incomplete download.
func (d *Dashboard) export(w http.ResponseWriter, r *http.Request) {
	caller, err := d.session(w, r)
	if err != nil {
		d.toSignIn(w, r, err)
		return
	}
	query := url.Values{}
	for name, field := range map[string]string{"queue": "q", "consumerGroup": "g", "partition": "p", "error": "e", "errorShape": "s", "from": "from", "to": "to"} {
		query.Set(name, r.URL.Query().Get(field))
	}
	for size, begun := exportPage, false; ; begun = true {
		more, err := d.exportNext(w, caller, query, &size, begun)
		switch {
		case err != nil && begun:
			panic(http.ErrAbortHandler)
		case err != nil:
			status, failure := d.failure(err)
			http.Error(w, failure.Text, status)
			return
		case !more:
			return
		}
	}
}

// exportNext writes a page of an export, and sets the cursor of the next page. If begun is true, it waits up to exportWait
// while the server is overloaded. more is true if there is another page to write.
func (d *Dashboard) exportNext(w http.ResponseWriter, caller *source.Caller, query url.Values, size *int, begun bool) (more bool, err error) {
	ctx, end := inflight.Fork(caller.Request.Context())
	defer end()
	found, err := d.exported(ctx, caller, query, size)
	for start := time.Now(); begun && source.IsStatus(err, http.StatusServiceUnavailable) && time.Since(start) < exportWait; {
		if err := backoff.Sleep(ctx, exportPause); err != nil {
			return false, err
		}
		found, err = d.exported(ctx, caller, query, size)
	}
	if err != nil {
		return false, err
	}
	if !begun {
		kind, suffix := "application/x-ndjson", "ndjson"
		if caller.Request.URL.Query().Get("format") == "csv" {
			kind, suffix = "text/csv; charset=utf-8; header=present", "csv"
		}
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Content-Disposition", `attachment; filename="dead-letters.`+suffix+`"`)
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(exportWrite)) // only tests have no connection
	if found.write(w, caller.Request.URL.Query().Get("format") == "csv", !begun) != nil {
		return false, nil // the browser has disconnected
	}
	if found.Pagination.Next == nil {
		return false, nil
	}
	query.Set("cursor", *found.Pagination.Next)
	return true, nil
}

// letters is a page of an export.
type letters struct {
	Messages   []json.RawMessage
	Pagination struct{ Next *string }
}

// write writes a page. As CSV, the first page begins with the names of the columns.
func (l *letters) write(w io.Writer, asCSV, first bool) error {
	list := api.DeadLetters{Messages: make([]api.DeadLetter, len(l.Messages))}
	for i, line := range l.Messages {
		if !asCSV {
			if _, err := w.Write(append(line, '\n')); err != nil {
				return err
			}
		} else if err := json.Unmarshal(line, &list.Messages[i]); err != nil {
			return err
		}
	}
	if !asCSV {
		return nil
	}
	return sheet.Write(w, list, first)
}

// exported reads a page of an export. It halves the size until the page fits into memory.
func (d *Dashboard) exported(ctx context.Context, caller *source.Caller, query url.Values, size *int) (found letters, err error) {
	for {
		text := fmt.Sprint(*size)
		query.Set("limit", text)
		query.Set("examine", text)
		found = letters{}
		err = d.client.Load(ctx, caller, "/api/v1/dlq/summary?"+query.Encode(), &found)
		if !errors.Is(err, source.ErrTooLarge) || *size == 1 {
			return found, err
		}
		*size /= 2
	}
}
