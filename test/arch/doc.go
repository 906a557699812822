// Package arch tests the structure of the repository. Its rules limit imports, the use of libraries and the length of
// files. They check the form of SQL, migration and compose files too.
//
// The package has only tests, and no package imports it. Each rule is a function that returns a list of complaints. A test
// feeds each rule an example that breaks it, because a rule that cannot fail proves nothing. The rules read files with
// os.ReadFile and go/parser instead of the go command. So they also see files for other operating systems, and `go test`
// runs them again when a file changes.
package arch
