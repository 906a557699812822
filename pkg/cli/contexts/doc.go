// Package contexts stores the servers and tokens that a user has named. Only this user may read the file.
//
// It may import no other package of Belfry.
package contexts
