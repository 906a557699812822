// Package arch tests the structure of the repository: which package imports which, where a library may be used, how
// long a file may be, and the form of SQL, migration and compose files.
//
// It has only tests, and no package imports it. Each rule is a function that returns a list of complaints. Each rule
// has a test that feeds it a breach, because a rule that cannot fail proves nothing. The rules read files with
// os.ReadFile and go/parser instead of the go command. So they also see files for other operating systems, and `go
// test` notices changes instead of using its cache.
package arch
