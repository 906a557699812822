// Package request returns requests for endpoints that have no method in package client. Client.Do sends them and
// documents which requests it repeats.
package request

import (
	"net/http"
	"net/url"

	"github.com/belfry-mq/belfry/pkg/client"
)

// Get returns a GET request.
func Get(path string, query url.Values) client.Request {
	return client.Request{Method: http.MethodGet, Path: path, Query: query}
}

// Post returns a POST request with a body. body may be nil.
func Post(path string, query url.Values, body any) client.Request {
	return client.Request{Method: http.MethodPost, Path: path, Query: query, Body: body}
}

// Delete returns a DELETE request.
func Delete(path string, query url.Values) client.Request {
	return client.Request{Method: http.MethodDelete, Path: path, Query: query}
}
