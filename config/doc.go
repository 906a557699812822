// Package config gathers the settings of every room into one Config and loads
// it from the places an operator may write them: a YAML file, environment
// variables, flags, and the variable names of the reference system.
//
// It promises three things. Nothing is ignored: an unknown key or variable is
// an error that names the nearest known one (but for the variables that Kubernetes sets
// for a Service). Everything is said at once: one
// error lists all problems, each with the place it came from. And a password
// never leaves: Print shows *** in its place.
//
// Each room owns its struct, its defaults and its Validate; this package only
// composes them. It reads no environment and no arguments by itself: the caller
// passes them in, so two loads never disturb each other. It is the only package
// that uses viper. pkg/app and cmd may import it; no room does.
package config
