// Package api has the requests and answers of the HTTP API. The server encodes the answers. The client, the command line and
// the dashboard decode them, and ignore members that a type does not have.
package api
