package provider

import "time"

// Aged returns the cookie of Begin as if the sign-in had begun earlier.
func (p *Provider) Aged(cookie string, age time.Duration) string {
	var f flow
	if p.flows.open(cookie, &f) != nil {
		return ""
	}
	f.BegunAt = f.BegunAt.Add(-age)
	aged, _ := p.flows.seal(f) // a flow can always be encoded
	return aged
}
