package contract

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Transport sends requests through Base and checks every complete exchange. It reads the whole answer before it returns.
type Transport struct {
	Base     http.RoundTripper
	Document *Document
	// Complain receives each difference from the document. It must be safe for concurrent use.
	Complain func(complaint string)
}

// RoundTrip sends one request.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	sent, r, err := keepBody(r)
	if err != nil {
		return nil, err
	}
	response, err := t.Base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	err = errors.Join(err, response.Body.Close())
	response.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), failing{err}))
	if err != nil {
		return response, nil
	}
	for _, complaint := range t.Document.Check(Exchange{
		Request: r, RequestBody: sent, Status: response.StatusCode, Header: response.Header, Body: body,
	}) {
		t.Complain(fmt.Sprintf("%s %s does not follow the OpenAPI document: %s\nsent: %.300s\nanswer %d: %.500s",
			r.Method, r.URL.RequestURI(), complaint, sent, response.StatusCode, body))
	}
	return response, nil
}

// CloseIdleConnections closes the idle connections of Base. http.Client calls it.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.Base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// keepBody reads the request's body. It returns the body and a copy of the request with that body.
func keepBody(r *http.Request) ([]byte, *http.Request, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, r, nil
	}
	body, err := io.ReadAll(r.Body)
	if err := errors.Join(err, r.Body.Close()); err != nil {
		return nil, nil, fmt.Errorf("reading the request's body: %w", err)
	}
	again := r.Clone(r.Context())
	again.Body = io.NopCloser(bytes.NewReader(body))
	return body, again, nil
}

// failing is the end of a body: a reader that returns err, or io.EOF if err is nil.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err == nil {
		return 0, io.EOF
	}
	return 0, f.err
}
