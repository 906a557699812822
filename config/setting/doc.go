// Package setting has types and functions for the settings of every package: Secret, a text that must not be printed, and
// functions that return the errors of invalid values. Such an error names the key, the value and the rule.
//
// A Secret prints as *** with fmt, in JSON, in text encodings and in logs. Only Reveal returns its text. In three cases the
// printer calls no method of the Secret and prints the text:
//
//   - fmt, for an unexported field. Do not print a struct that has a Secret in an unexported field.
//   - fmt, for the verb %p, and for %w without Errorf. `go vet` refuses both.
//   - encoding/json, for the keys of a map. Do not use a Secret as a key.
package setting
