// Package output prints what commands show: tables for people, and JSON, lines of JSON, YAML or what a
// JSONPath selects for programs.
//
// It may import no other package of Belfry.
package output
