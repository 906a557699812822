// Package setting has what the settings of every package are made of: texts that must not be printed, and the errors of
// invalid values, which name the key, the value and the rule.
//
// A Secret prints as *** with fmt, in JSON, in text encodings and in logs. Only Reveal returns its text. Three gaps are left,
// because the printers call no methods there:
//
//   - fmt, for unexported fields. Do not print a struct whole that has a Secret in one.
//   - fmt, for the verbs %p, and %w without Errorf. `go vet` refuses both.
//   - encoding/json, for the keys of a map. Do not use a Secret as a key.
package setting
