// Package repair has the routes with which people look at failed messages and mend them: the failed attempts of a
// message, and a message that is sent again with changes. It also writes lists of messages and of dead letters as
// CSV.
//
// It promises that a resend stores the new message, the mark of the old message, the deletion of dead letters and the
// row of the audit in one transaction, and that a repeated request stores nothing.
//
// The package declares the interfaces that it calls. Only pkg/httpapi imports it.
package repair
