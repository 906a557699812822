// Package contract checks the server against its OpenAPI document, pkg/httpapi/openapi. It assembles the parts of the
// document, and checks requests and answers.
//
// Transport, used below an http.Client, reports
//
//   - a path, method or status that the document does not have;
//   - an answer whose body, content type or headers differ from the description, also by an undocumented member;
//   - a successful request with a parameter or a body that differs from the description.
//
// The document itself lets callers ignore unknown members. The checks are stricter: they close every object with
// properties, so that the server sends nothing undocumented.
//
// Only tests and scripts/reference import it.
package contract
