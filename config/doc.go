// Package config composes the settings of every package into one Config. It loads them from a
// YAML file, environment variables, flags, and the variable names of Queen MQ.
//
// It promises three things:
//
//   - A mistake is not ignored. An unknown key, and a variable that resembles a setting, is an
//     error that names the nearest known one. Unknown lists the other variables with the prefix
//     BELFRY_. Only the variables that Kubernetes sets for a Service are ignored.
//   - One error lists all problems, each with its source.
//   - No password is printed. Print shows *** instead.
//
// Each package owns its struct, its defaults and its Validate; this package only composes
// them. It reads neither the environment nor the arguments of the process: the caller
// passes them. Therefore two loads are independent. Only this package uses viper. pkg/app
// and cmd may import it; no other package does.
package config
