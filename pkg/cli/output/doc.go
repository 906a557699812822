// Package output prints the results of commands: tables for people, and JSON, lines of JSON, YAML, or the values that
// a JSONPath selects for programs.
//
// The package imports no other package of Belfry.
package output
