package httpapi_test

import (
	stdgzip "compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/insight/totals"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/apitest"
)

// long is a page that is worth to be compressed.
var long = strings.Repeat("<p>a row of a table</p>\n", 500)

// pagesThat serves dashboard instead of the pages for people. The network is real.
func pagesThat(t *testing.T, dashboard http.HandlerFunc, edits ...func(cfg *httpapi.Config)) string {
	t.Helper()
	s, _ := apitest.Server(&apitest.Fakes{}, func(cfg *httpapi.Config, deps *httpapi.Deps) {
		deps.Dashboard = dashboard
		for _, edit := range edits {
			edit(cfg)
		}
	})
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	return server.URL
}

// loaded is the begin of an answer.
type loaded struct {
	StatusCode int
	Header     http.Header
}

// load sends a request as it is. The answer is not decompressed.
func load(t *testing.T, method, url string, headers map[string]string) (got loaded, body []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	require.NoError(t, err)
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	plain := &http.Transport{DisableCompression: true}
	defer plain.CloseIdleConnections()
	answer, err := plain.RoundTrip(r)
	require.NoError(t, err)
	defer func() { require.NoError(t, answer.Body.Close()) }()
	body, err = io.ReadAll(answer.Body)
	require.NoError(t, err)
	return loaded{answer.StatusCode, answer.Header}, body
}

func writes(kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, body)
	}
}

const htmlType = "text/html; charset=utf-8"

func TestAPageIsCompressedAsTheClientWishes(t *testing.T) {
	t.Parallel()
	url := pagesThat(t, writes(htmlType, long)) + "/ui/page"
	for accept, want := range map[string]string{
		"gzip": "gzip", "gzip, deflate, br, zstd": "zstd", "zstd;q=0.1, gzip;q=0.9": "gzip", "br": "", "gzip;q=0": "", "": "",
	} {
		answer, body := load(t, http.MethodGet, url, map[string]string{"Accept-Encoding": accept})
		require.Equal(t, want, answer.Header.Get("Content-Encoding"), accept)
		require.Contains(t, answer.Header.Values("Vary"), "Accept-Encoding", "a cache between must know")
		text := string(body)
		switch want {
		case "gzip":
			read, err := stdgzip.NewReader(strings.NewReader(text))
			require.NoError(t, err)
			raw, err := io.ReadAll(read)
			require.NoError(t, err)
			text = string(raw)
		case "zstd":
			read, err := zstd.NewReader(nil)
			require.NoError(t, err)
			raw, err := read.DecodeAll(body, nil)
			require.NoError(t, err)
			text = string(raw)
			read.Close()
		}
		require.Equal(t, long, text, accept)
		if want != "" {
			require.Less(t, len(body), len(long)/10)
		}
	}
}

// Whatever must not be compressed arrives as the handler wrote it, with its length.
func TestWhatIsNotCompressedStaysAsItIs(t *testing.T) {
	t.Parallel()
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	with := func(name, value string, next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(name, value)
			next(w, r)
		}
	}
	file := func(w http.ResponseWriter, r *http.Request) {
		http.ServeFileFS(w, r, fstest.MapFS{"page.html": {Data: []byte(long)}}, "page.html")
	}
	for name, c := range map[string]struct {
		page    http.HandlerFunc
		method  string
		headers map[string]string
		status  int
		body    string
	}{
		"a small page":                         {page: writes(htmlType, "small"), body: "small"},
		"an image":                             {page: writes("image/png", long), body: long},
		"a compressed page":                    {page: with("Content-Encoding", "br", writes(htmlType, long)), body: long},
		"a page with payloads":                 {page: with("Cache-Control", "no-store, no-transform", writes(htmlType, long)), body: long},
		"a page that another site asks for":    {page: writes(htmlType, long), headers: map[string]string{"Sec-Fetch-Site": "cross-site"}, body: long},
		"a page that a sister site asks for":   {page: writes(htmlType, long), headers: map[string]string{"Sec-Fetch-Site": "same-site"}, body: long},
		"the head of a page":                   {page: writes(htmlType, long), method: http.MethodHead},
		"no content":                           {page: status(http.StatusNoContent), status: http.StatusNoContent},
		"not modified":                         {page: with("ETag", `"a"`, status(http.StatusNotModified)), status: http.StatusNotModified},
		"a redirect":                           {page: with("Location", "/ui/", status(http.StatusSeeOther)), status: http.StatusSeeOther},
		"a part of a file":                     {page: file, headers: map[string]string{"Range": "bytes=1000-2999"}, status: http.StatusPartialContent, body: long[1000:3000]},
		"a server without http.compression":    {page: writes(htmlType, long), body: long},
		"a stream, whose answer never is long": {page: writes("text/event-stream", long), body: long},
	} {
		url := pagesThat(t, c.page, func(cfg *httpapi.Config) { cfg.Compression = name != "a server without http.compression" })
		headers := map[string]string{"Accept-Encoding": "gzip, zstd"}
		for key, value := range c.headers {
			headers[key] = value
		}
		method := http.MethodGet
		if c.method != "" {
			method = c.method
		}
		answer, body := load(t, method, url+"/ui/page", headers)
		require.Equal(t, c.body, string(body), name)
		require.Equal(t, max(c.status, http.StatusOK), answer.StatusCode, name)
		require.NotContains(t, []string{"gzip", "zstd"}, answer.Header.Get("Content-Encoding"), name)
		require.Empty(t, answer.Header.Get("No-Gzip-Compression"), name)
	}
}

// What a handler has flushed arrives before the handler ends.
func TestAFlushedPartOfAPageArrivesAtOnce(t *testing.T) {
	t.Parallel()
	for kind, encoding := range map[string]string{htmlType: "gzip", "text/event-stream": ""} {
		arrived := make(chan struct{})
		url := pagesThat(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = io.WriteString(w, "the first part")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-arrived:
			case <-r.Context().Done():
			}
			_, _ = io.WriteString(w, ", the end")
		})
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/ui/page", http.NoBody)
		require.NoError(t, err)
		r.Header.Set("Accept-Encoding", "gzip")
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.Equal(t, encoding, answer.Header.Get("Content-Encoding"), kind)
		var body io.Reader = answer.Body
		if encoding != "" {
			body, err = stdgzip.NewReader(answer.Body)
			require.NoError(t, err)
		}
		part := make([]byte, len("the first part"))
		_, err = io.ReadFull(body, part)
		require.NoError(t, err)
		close(arrived)
		rest, err := io.ReadAll(body)
		require.NoError(t, err)
		require.Equal(t, "the first part, the end", string(part)+string(rest), kind)
		require.NoError(t, answer.Body.Close())
	}
}

// Figures are compressed. Payloads are not, and no push, pop or ack waits for a compressor.
func TestFiguresAreCompressedAndMessagesAreNot(t *testing.T) {
	t.Parallel()
	payload := []byte(`"` + strings.Repeat("x", 5000) + `"`)
	f := &apitest.Fakes{Pop: func(context.Context, *queue.PopRequest) (queue.Delivery, error) {
		d := apitest.OneMessage()
		d.Messages[0].Payload = payload
		return d, nil
	}}
	f.Totals.Queues = make([]totals.Queue, 50)
	s, _ := apitest.Server(f)
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	wants := map[string]string{"Accept-Encoding": "gzip"}
	for path, want := range map[string]string{
		"/openapi.json": "gzip", "/api/v1/queues": "gzip", "/api/v1/pop/queue/orders": "", "/livez": "",
	} {
		answer, body := load(t, http.MethodGet, server.URL+path, wants)
		require.Equal(t, http.StatusOK, answer.StatusCode, "%s: %s", path, body)
		require.Equal(t, want, answer.Header.Get("Content-Encoding"), path)
		if tag := answer.Header.Get("ETag"); tag != "" {
			again, none := load(t, http.MethodGet, server.URL+path, map[string]string{"Accept-Encoding": "gzip", "If-None-Match": tag})
			require.Equal(t, http.StatusNotModified, again.StatusCode, path)
			require.Empty(t, none, path)
		}
	}
	answer, body := load(t, http.MethodGet, server.URL+"/api/v1/explain", wants)
	require.Empty(t, answer.Header.Get("Content-Encoding"))
	require.Contains(t, string(body), `"error"`, "an error of a compressed route arrives whole")
}
