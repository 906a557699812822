package page

import "github.com/belfry-mq/belfry/pkg/access/identity"

// tabs are the pages that share one entry of the navigation.
var tabs = map[string][]Choice{
	"queues":   {{"queues", "Queues"}, {"namespaces", "Namespaces"}, {"tasks", "Tasks"}, {"schedules", "Schedules"}},
	"messages": {{"messages", "Stored"}, {"traces", "Traces"}},
	"system":   {{"system", "Instances and Postgres"}, {"producers", "Producers in SQL"}, {"streams", "Streams"}, {"maintenance", "Maintenance"}, {"access", "Access"}, {"audit", "Audit"}},
}

// tabsOf returns the tabs that the caller may see.
func tabsOf(of string, can Can) []Choice {
	var shown []Choice
	for _, tab := range tabs[of] {
		switch tab.Value {
		case "audit":
			if !can.SeeAdmin() {
				continue
			}
		case "maintenance", "access":
			if !can.SeeAdmin() || !can.SeeAll() {
				continue
			}
		case "system":
			if !can.SeeAll() {
				continue
			}
		}
		shown = append(shown, tab)
	}
	return shown
}

// SeeAdmin reports whether the caller is an administrator. It ignores ReadOnly.
func (c Can) SeeAdmin() bool { return Can{Principal: c.Principal}.has(identity.Admin) }

// Maintain reports whether the caller may turn push and pop maintenance on and off.
func (c Can) Maintain() bool { return c.has(identity.Admin) && c.SeeAll() }
