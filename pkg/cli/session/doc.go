// Package session has what each command works with: its flags, the client, the printer, questions, and exit codes.
//
// Run makes the RunE of a command: it reads the flags, opens the client for the server that they choose, and calls the command.
//
// # Exit codes
//
// 0: done. 1: it failed. 2: the command line is wrong, or apply --dry-run found a difference. 3: the server
// refused the token (401, 403). 4: a pop found no message.
package session
