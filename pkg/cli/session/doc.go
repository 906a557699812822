// Package session has the common parts of all commands: flags, the client, the printer, questions, and exit codes.
//
// Run makes the RunE of a command. RunE reads the flags, opens the client for the chosen server, and calls the
// command.
//
// # Exit codes
//
// 0: done. 1: the command failed. 2: the command line is wrong, or apply --dry-run found a difference. 3: the server
// refused the token (401, 403). 4: a pop found no message.
package session
