// Package access contains the packages for authentication, authorization and the audit.
//
//   - identity describes who makes a request, and what the grants of the sender allow.
//   - token reads, signs and revokes tokens.
//   - certificate reads TLS certificates again when their files change.
//   - audit records and lists the changes of operators.
package access
