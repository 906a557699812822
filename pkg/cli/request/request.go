// Package request makes the requests that package client has no method for.
//
// They are sent with Client.Do, which says what it retries.
package request

import (
	"net/http"
	"net/url"

	"github.com/belfry-mq/belfry/pkg/client"
)

// Get returns a request that changes nothing.
func Get(path string, query url.Values) client.Request {
	return client.Request{Method: http.MethodGet, Path: path, Query: query}
}

// Post returns a request with a body, which may be nil.
func Post(path string, query url.Values, body any) client.Request {
	return client.Request{Method: http.MethodPost, Path: path, Query: query, Body: body}
}

// Delete returns a request that deletes.
func Delete(path string, query url.Values) client.Request {
	return client.Request{Method: http.MethodDelete, Path: path, Query: query}
}
