// Package rig starts the processes of benchmarks and tests: servers, and other children that must not share a scheduler and a
// garbage collector with the load. It also reads their use of the machine, and runs and reports the measures of a command. A child
// is the same program, started again, or another one: its main or TestMain calls RunChild first. A child ends when its standard
// input ends, so it never outlives its parent. Only benchmarks and tests import this package.
package rig
