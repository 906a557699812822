package page

import "html/template"

// With returns the URL of the shown page with another value in its query.
func With(r *Request, path, name, value string) template.URL {
	query := r.Query
	kept := make([]string, 0, 2*len(query))
	encoded := ""
	for key, values := range query {
		if key == "c" { // has several values
			for _, v := range values {
				encoded += "&c=" + template.URLQueryEscaper(v)
			}
		} else if key != name && key != "after" && len(values) > 0 {
			kept = append(kept, key, values[0])
		}
	}
	return Link(path, append(kept, name, value)...) + template.URL(encoded) //nolint:gosec // the values are escaped
}
