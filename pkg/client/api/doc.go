// Package api has the requests and answers of the HTTP API: the server encodes them, and the client, the command line and the
// dashboard decode them. A type that is decoded from an answer ignores members that it does not know.
package api
