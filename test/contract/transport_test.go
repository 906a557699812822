package contract

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTransport(t *testing.T) {
	t.Parallel()
	var received []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(err)
		}
		received = append(received, string(body))
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "1")
		if r.URL.Query().Has("cut") {
			w.Header().Set("Content-Length", "1000")
		}
		_, _ = io.WriteString(w, `{"id":"x"}`) // the client detects the missing bytes
	}))
	t.Cleanup(server.Close)
	document, err := Parse([]byte(tiny))
	require.NoError(t, err)
	var complaints []string
	client := &http.Client{Transport: &Transport{
		Base: &http.Transport{}, Document: document, Complain: func(c string) { complaints = append(complaints, c) },
	}}
	t.Cleanup(client.CloseIdleConnections)
	send := func(target string, body io.Reader) (string, error) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+target, body)
		require.NoError(t, err)
		response, err := client.Do(request)
		require.NoError(t, err)
		got, err := io.ReadAll(response.Body)
		require.NoError(t, response.Body.Close())
		return string(got), err
	}

	got, err := send("/a/b?n=1", strings.NewReader("{}"))
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"x"}`, got, "the caller must get the answer")
	require.Len(t, complaints, 1)
	require.Contains(t, complaints[0], "POST /a/b?n=1 does not follow the OpenAPI document")

	_, err = send("/a/b?n=1", io.MultiReader(strings.NewReader("{"), strings.NewReader("}")))
	require.NoError(t, err)
	require.Equal(t, []string{"{}", "{}"}, received, "the server must get the body, also a chunked body")
	require.Len(t, complaints, 2)

	_, err = send("/a/b?n=1&cut=1", strings.NewReader("{}"))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Len(t, complaints, 2, "an incomplete answer must not be checked")
}
