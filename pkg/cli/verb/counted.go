package verb

import (
	"fmt"
	"maps"
	"net/url"

	"github.com/belfry-mq/belfry/pkg/client"
)

// confirm asks the question of the verb. The question has the number of the objects that the command will change. It returns the
// requests of the command. If it has counted dead letters, the requests take only these dead letters.
func (v *Verb) confirm(in *Input, requests []client.Request, exists bool) ([]client.Request, error) {
	if v.Ask == "" || in.DryRun {
		return requests, nil
	}
	question := insertArgs(v.Ask, in.Args)
	save := exists && v.Save != nil && v.Save.Wanted(in)
	switch {
	case !exists || in.Sure() && !save:
	case v.Repeat != nil:
		n, bounded, err := countFirst(in, requests)
		if err != nil {
			return nil, err
		}
		requests = bounded
		question += fmt.Sprintf(" Counted: %d. Later ones stay.", n)
	case v.Touches != nil:
		text, err := v.Touches(in)
		if err != nil {
			return nil, err
		}
		question += text
	}
	if err := in.Confirm(question); err != nil || !save {
		return requests, err
	}
	return requests, v.Save.Write(in)
}

// countFirst makes a dry run of each request. It returns the sum of the numbers, and the requests that take only what was counted.
func countFirst(in *Input, requests []client.Request) (n int64, bounded []client.Request, err error) {
	for _, r := range requests {
		var counted struct {
			Matched int64  `json:"matched"`
			AsOf    string `json:"asOf"`
		}
		if err := in.Client.Do(in.Cmd.Context(), with(r, "dryRun", true), &counted); err != nil {
			return 0, nil, err
		}
		n, bounded = n+counted.Matched, append(bounded, with(r, "asOf", counted.AsOf))
	}
	return n, bounded, nil
}

// with returns a request with one more field in its body. If it has no body, it gets one more parameter.
func with(r client.Request, name string, value any) client.Request {
	if body, ok := r.Body.(map[string]any); ok {
		body = maps.Clone(body)
		body[name], r.Body = value, body
		return r
	}
	query := url.Values{}
	maps.Copy(query, r.Query)
	query.Set(name, fmt.Sprint(value))
	r.Query = query
	return r
}
