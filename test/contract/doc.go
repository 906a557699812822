// Package contract holds the server to its OpenAPI document, pkg/httpapi/openapi:
// it puts the parts together, and checks requests and answers against the whole.
//
// It promises that Transport, put under an http.Client, complains of
//
//   - a path, method or status that the document does not have;
//   - an answer whose body, content type or headers are not as described, also
//     when a member is there that the document does not name;
//   - a request that was answered with success although a parameter or its body
//     is not as described, or has something that the document does not name.
//
// The document itself lets callers ignore what they do not know. The checks do
// not: here every object with properties is closed, so that nothing is served
// that nobody wrote down.
//
// It is for tests and for scripts/reference.
package contract
