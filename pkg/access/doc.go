// Package access holds who may do what, and who did it.
//
//   - identity is who makes a request, and what its grants allow.
//   - token reads, signs and revokes tokens.
//   - certificate reads TLS certificates again when their files change.
//   - audit writes and lists who changed what.
package access
