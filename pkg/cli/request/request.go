package request

import (
	"net/http"
	"net/url"

	"github.com/belfry-mq/belfry/pkg/client"
)

// get, post and remove return requests.
func Get(path string, query url.Values) client.Request {
	return client.Request{Method: http.MethodGet, Path: path, Query: query}
}

func Post(path string, query url.Values, body any) client.Request {
	return client.Request{Method: http.MethodPost, Path: path, Query: query, Body: body}
}

func Delete(path string, query url.Values) client.Request {
	return client.Request{Method: http.MethodDelete, Path: path, Query: query}
}
