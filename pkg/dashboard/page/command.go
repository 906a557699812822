package page

import (
	"net/url"
	"strings"
)

// Command is a shell command with the same effect as a page or one of its actions.
type Command struct {
	// What describes the effect of the command.
	What string
	// CLI is a belfry command, and Curl is a curl command. Each may be empty.
	CLI, Curl string
}

// Get returns the command that reads a path of the API. cli are the words of the belfry command.
func (r *Request) Get(what, path string, cli ...string) Command {
	return r.Command(what, "GET", path, "", cli)
}

// Command returns a command that sends a request to the API.
func (r *Request) Command(what, method, path, body string, cli []string) Command {
	words := []string{"curl"}
	if method != "GET" {
		words = append(words, "-X", method)
	}
	if r.Caller.Principal != nil {
		words = append(words, "-H", `"Authorization: Bearer $BELFRY_TOKEN"`)
	}
	if body != "" {
		words = append(words, "-d", shell(body))
	}
	c := Command{What: what, Curl: strings.Join(append(words, shell(r.Base+path)), " ")}
	if len(cli) > 0 {
		quoted := []string{"belfry"}
		for _, word := range cli {
			quoted = append(quoted, shell(word))
		}
		c.CLI = strings.Join(quoted, " ")
	}
	return c
}

// Flags adds flags to the words of a belfry command. pairs alternates between flags and values. Flags leaves out a flag
// with an empty value.
func Flags(words []string, pairs ...string) []string {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			words = append(words, pairs[i], pairs[i+1])
		}
	}
	return words
}

// CLIGroup returns the flag of the belfry command for a group.
func CLIGroup(group string) []string {
	if group == QueueMode {
		return nil
	}
	return []string{"--group", group}
}

// Esc escapes a name for a path.
func Esc(name string) string { return url.PathEscape(name) }
