package dashboard

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/belfry-mq/belfry/pkg/dashboard/page"
)

// letterFilter has the filters of the page of dead letters, by their names in its URL.
type letterFilter url.Values

// letters returns the filter of a form.
func (f form) letters() letterFilter {
	filter := letterFilter{}
	for name, field := range map[string]string{"q": "queue", "g": "group", "p": "partition", "e": "error", "s": "shape", "from": "from", "to": "to"} {
		if f.Get(field) != "" {
			filter[name] = []string{f.Get(field)}
		}
	}
	return filter
}

// link returns the page of dead letters with the filter.
func (l letterFilter) link() string { return "dead?" + url.Values(l).Encode() }

// query returns the filter as parameters of the API.
func (l letterFilter) query() url.Values {
	query := url.Values{}
	for name, field := range map[string]string{"queue": "q", "consumerGroup": "g", "partition": "p", "error": "e", "errorShape": "s", "from": "from", "to": "to"} {
		if len(l[field]) > 0 && l[field][0] != "" {
			query.Set(name, l[field][0])
		}
	}
	return query
}

// purge deletes the dead letters of a count.
func purge(f form) (change, error) {
	query := f.letters().query()
	c := change{method: http.MethodDelete, done: "The dead letters are deleted.", back: f.letters().link()}
	if f.Get("as-of") == "" {
		query.Set("dryRun", "true")
		c = c.counting(f, "purge")
	} else {
		query.Set("asOf", f.Get("as-of"))
	}
	c.path = "/api/v1/dlq?" + query.Encode()
	return c, f.confirmed(f.queue())
}

// counting makes a dry run of a change. Without scripts, a form is sent twice: the first time counts, and the second time acts on
// what was counted.
func (c change) counting(f form, part string) change {
	c.describe = func(answer any) (string, bool) {
		n, _ := member(answer, "matched").(float64)
		return fmt.Sprintf("Nothing is changed yet. Counted: %.0f dead letters. Send the form again to act on these, and on no later ones.", n), false
	}
	c.follow = func(answer any) string {
		at, _ := member(answer, "asOf").(string)
		back := f.letters()
		back["as-of"] = []string{at}
		return back.link() + "#" + part
	}
	return c
}

func member(answer any, name string) any {
	members, _ := answer.(map[string]any)
	return members[name]
}

// count serves GET count: it passes on the progress of a count of dead letters. It stops when the browser disconnects.
func (d *Dashboard) count(w http.ResponseWriter, r *http.Request) {
	d.pass(w, r, "/api/v1/dlq/count?"+letterFilter(r.URL.Query()).query().Encode())
}

// countSeek serves GET count-seek: it passes on a part of the preview of a seek.
func (d *Dashboard) countSeek(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	path := page.SeekPath(query.Get("g"), query.Get("q"), query.Get("to"), query.Get("at"), query.Get("in"))
	d.pass(w, r, path+"&limit=10000&cursor="+url.QueryEscape(query.Get("cursor")))
}

// pass answers with what the API answers to a GET.
func (d *Dashboard) pass(w http.ResponseWriter, r *http.Request, path string) {
	caller, err := d.caller(r)
	if err != nil {
		http.Error(w, errorText(err), http.StatusUnauthorized)
		return
	}
	if err := d.client.Watch(caller, w, path); err != nil {
		http.Error(w, errorText(err), http.StatusBadRequest)
	}
}

// errNotCounted refuses a purge to a file without a count.
var errNotCounted = errors.New("count the dead letters first")

// purgeFile serves POST purge-file: it streams the counted dead letters to the browser, and deletes what it has written.
func (d *Dashboard) purgeFile(w http.ResponseWriter, r *http.Request) {
	caller, err := d.caller(r)
	if err != nil {
		d.toSignIn(w, r, err)
		return
	}
	end, err := d.readForm(w, r, maxForm)
	defer end()
	f := form{lines(r.PostForm)}
	switch {
	case err != nil:
	case d.cfg.ReadOnly:
		err = errReadOnly
	case f.Get("as-of") == "":
		err = errNotCounted
	default:
		err = f.confirmed(f.queue())
	}
	if err == nil {
		query := f.letters().query()
		query.Set("asOf", f.Get("as-of"))
		err = d.client.Stream(caller, w, "/api/v1/dlq/purge?"+query.Encode(), nil)
	}
	if err != nil {
		setNotice(w, r, "Nothing was changed: "+errorText(err)+".", true)
		leave(w, r, d.cameFrom(r))
	}
}
