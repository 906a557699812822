// Package contract checks the server against its OpenAPI document, pkg/httpapi/openapi. It assembles the parts of the
// document. It compares requests and answers with the document.
//
// Transport wraps the transport of an http.Client. It reports
//
//   - a path, method or status that the document does not have;
//   - an answer whose body, content type or headers differ from the document, including undocumented members;
//   - a successful request with a parameter or a body that differs from the document.
//
// The document itself lets clients ignore unknown members. The checks are stricter: an object with a list of properties may
// have no other members. So the server sends nothing undocumented.
//
// Only tests and scripts/reference import the package.
package contract
