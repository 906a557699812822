package dashboard

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dashboard/page"
)

// revokeToken revokes the token of a form. The field has the token or its id. Only a token has dots.
func revokeToken(f form) change {
	text := strings.TrimSpace(f.Get("token"))
	body := map[string]any{"id": text}
	if strings.Count(text, ".") == 2 {
		body = map[string]any{"token": text}
	}
	return change{method: http.MethodPost, path: "/api/v1/tokens/revoke", body: body, done: "The token is revoked. All servers refuse it."}
}

// changeGrant gives the grant of a form to a role of the database, or revokes it.
func changeGrant(f form, revoke bool) change {
	body := map[string]any{"kind": f.Get("kind"), "role": f.Get("role"), "queue": f.Get("queue")}
	if f.Get("group") != "" {
		body["consumerGroup"] = f.Get("group")
	}
	if revoke {
		return change{method: http.MethodPost, path: "/api/v1/sql-grants/revoke", body: body, done: "The grant is revoked."}
	}
	return change{method: http.MethodPost, path: "/api/v1/sql-grants", body: body, done: "The grant is given."}
}

// createToken serves POST token: it creates a token through the API, and shows it once. The token is only in the answer,
// and not in a notice, which is a cookie.
func (d *Dashboard) createToken(w http.ResponseWriter, r *http.Request) {
	caller, err := d.session(w, r)
	if err != nil {
		redirect(w, "sign-in?"+url.Values{"next": {"access"}}.Encode())
		return
	}
	if d.cfg.ReadOnly {
		http.Error(w, errReadOnly.Error(), http.StatusForbidden)
		return
	}
	end, err := d.readForm(w, r, maxForm)
	defer end()
	var body map[string]any
	if err == nil {
		body, err = tokenOf(form{lines(r.PostForm)})
	}
	var made api.CreatedToken
	if err == nil {
		err = d.client.Do(caller, http.MethodPost, "/api/v1/tokens", body, &made)
	}
	if err != nil {
		setNotice(w, r, "No token was created: "+errorText(err)+".", true)
		redirect(w, "access")
		return
	}
	view := &page.View{Version: d.deps.Version, Now: time.Now(), Content: &page.Content{Title: "The new token", Data: made}}
	d.render(w, http.StatusOK, func(b *bytes.Buffer) error { return d.pages.RenderToken(b, view) })
}

// tokenOf returns the body of POST /api/v1/tokens for a form.
func tokenOf(f form) (map[string]any, error) {
	hours, err := strconv.Atoi(f.Get("hours"))
	if err != nil {
		return nil, fmt.Errorf("the time is %q: it must be a whole number of hours", f.Get("hours"))
	}
	body := map[string]any{"subject": strings.TrimSpace(f.Get("subject")), "role": f.Get("role"), "ttlSeconds": int64(hours) * 3600}
	grants := map[string][]string{}
	for _, list := range []string{"read", "push", "consume", "admin"} {
		for pattern := range strings.Lines(f.Get(list)) {
			if pattern = strings.TrimSpace(pattern); pattern != "" {
				grants[list] = append(grants[list], pattern)
			}
		}
	}
	if len(grants) > 0 {
		body["grants"] = grants
	}
	return body, nil
}
