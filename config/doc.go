// Package config composes the settings of every package into one Config. It loads them from a
// YAML file, environment variables, flags, and the variable names of Queen MQ.
//
// It promises three things:
//
//   - A mistake is not ignored. An unknown key is an error that names the nearest known key.
//     An unknown BELFRY_ variable that resembles a setting is an error that names the nearest
//     known variable. Unknown lists the other BELFRY_ variables. Only the variables that
//     Kubernetes sets for a Service are ignored.
//   - One error lists all problems, each with its source.
//   - No secret is printed. Print shows *** instead.
//
// Each package declares its struct, its defaults and its Validate. This package only composes
// them. The caller passes the environment and the flags, so two loads are independent. Only
// this package uses viper. Only pkg/app and cmd import this package.
package config
