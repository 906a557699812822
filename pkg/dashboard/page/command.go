package page

import (
	"net/url"
	"strings"
)

// Command is one way to do from a shell what a page does or shows.
type Command struct {
	// What it does, for people.
	What string
	// CLI and Curl are commands. Each may be empty.
	CLI, Curl string
}

// Get is the command that reads a path of the API. cli are the words of the belfry command.
func (r *Request) Get(what, path string, cli ...string) Command {
	return r.Command(what, "GET", path, "", cli)
}

// Command is a command that sends a request to the API.
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
		Quoted := []string{"belfry"}
		for _, word := range cli {
			Quoted = append(Quoted, shell(word))
		}
		c.CLI = strings.Join(Quoted, " ")
	}
	return c
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
