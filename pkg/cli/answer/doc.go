// Package answer shows answers of the server as text for people, where a table does not suit.
//
// It imports only pkg/cli/output and pkg/client/api, and pkg/cli imports it.
package answer
