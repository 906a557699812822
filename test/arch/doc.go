// Package arch tests the shape of the house: which room imports which, where a
// library may be used, how long a file may grow, and what SQL, migration and
// compose files look like.
//
// It holds tests only and nobody imports it. Each rule is a function from what
// was read to a list of complaints, with a test beside it that feeds it a
// breach: a rule that cannot fail guards nothing. The files are read with
// os.ReadFile and go/parser rather than by calling the go command, so that
// files for other systems are seen too, and so that `go test` notices a change
// and does not answer from its cache.
package arch
