// Package contexts keeps the servers and tokens that a user has named, in a file that only the user may read.
//
// It may import no other package of Belfry.
package contexts
