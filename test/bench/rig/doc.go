// Package rig starts child processes for benchmarks and tests, such as servers. A child does not share the scheduler and
// the garbage collector of Go with the load. The package reads how much processor time and memory a child uses. It also
// runs the measures of a command and reports their figures.
//
// A child is usually the same program, started again. Its main or TestMain calls RunChild first. A child ends when its
// standard input ends, so it never outlives its parent. Only benchmarks and tests import this package.
package rig
