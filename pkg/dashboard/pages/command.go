package pages

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

// get is the command that reads a path of the API. cli are the words of the belfry command.
func (r *Request) get(what, path string, cli ...string) Command {
	return r.command(what, "GET", path, "", cli)
}

// command is a command that sends a request to the API.
func (r *Request) command(what, method, path, body string, cli []string) Command {
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

// cliGroup returns the flag of the belfry command for a group.
func cliGroup(group string) []string {
	if group == queueMode {
		return nil
	}
	return []string{"--group", group}
}

// esc escapes a name for a path.
func esc(name string) string { return url.PathEscape(name) }
