package contract

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

//go:embed testdata/queen.json
var queenText []byte

// Shapes returns the shapes of the answers of Queen MQ, by method and path. The data is in testdata/queen.json. A shape has
// one of three forms:
//
//   - the name of a type, or several names separated by "|",
//   - an object with a shape for each member,
//   - a list with the shape of its elements.
func Shapes() (map[string]any, error) {
	shapes := map[string]any{}
	err := json.Unmarshal(queenText, &shapes)
	return shapes, err
}

// named are shapes that testdata/queen.json uses more than once.
var named = map[string]any{
	"figure": object{"avg": "number", "min": "number", "max": "number", "last": "number"},
	"sharedState": object{
		"enabled": "boolean", "running": "boolean", "server_id": "string",
		"queue_config_cache": object{"size": "number", "hits": "number", "misses": "number", "hit_rate": "number"},
		"server_health": object{
			"servers_tracked": "number", "servers_alive": "number", "servers_dead": "number", "heartbeats_received": "number", "restarts_detected": "number",
		},
		"maintenance_mode": "boolean", "pop_maintenance_mode": "boolean",
		"transport": object{
			"server_id": "string", "session_id": "string", "port": "number", "peer_count": "number", "learned_identities_count": "number",
			"peers":              []any{object{"hostname": "string", "config_server_id": "string", "port": "number", "resolved": "boolean"}},
			"learned_identities": "object", "messages_sent": "number", "messages_received": "number", "messages_dropped": "number",
			"signature_failures": "number", "sequence_rejections": "number",
		},
	},
}

// Differences compares a JSON value with a shape. It allows members that the shape does not have. A list with a shape for
// its elements must not be empty. The shape "list" is for a list that may be empty.
func Differences(shape, value any) []string { return differences("", shape, value) }

func differences(place string, shape, value any) (found []string) {
	switch shape := shape.(type) {
	case object:
		got, ok := value.(object)
		if !ok {
			return []string{fmt.Sprintf("%s is %s, not an object", at(place), typeOf(value))}
		}
		for _, name := range slices.Sorted(maps.Keys(shape)) {
			member, has := got[name]
			if !has {
				found = append(found, at(place+"."+name)+" is missing")
				continue
			}
			found = append(found, differences(place+"."+name, shape[name], member)...)
		}
	case []any:
		got, ok := value.([]any)
		switch {
		case !ok:
			return []string{fmt.Sprintf("%s is %s, not a list", at(place), typeOf(value))}
		case len(got) == 0:
			return []string{at(place) + " is empty, so its elements cannot be compared"}
		}
		for i := range got {
			found = append(found, differences(fmt.Sprintf("%s[%d]", place, i), shape[0], got[i])...)
		}
	case string:
		if one, ok := named[shape]; ok {
			return differences(place, one, value)
		}
		if !slices.ContainsFunc(strings.Split(shape, "|"), func(name string) bool { return is(name, value) }) {
			found = append(found, fmt.Sprintf("%s is %s, not %s", at(place), typeOf(value), shape))
		}
	default:
		found = append(found, fmt.Sprintf("%s: the shape %v is not a valid shape", at(place), shape))
	}
	return found
}

// at returns the path of a value for a message.
func at(place string) string {
	if place == "" {
		return "the answer"
	}
	return strings.TrimPrefix(place, ".")
}

func is(name string, value any) bool {
	if name != "instant" {
		return typeOf(value) == name
	}
	text, _ := value.(string)
	_, err := time.Parse(time.RFC3339, text)
	return err == nil && strings.HasSuffix(text, "Z")
}

// typeOf names the type of a value that encoding/json has read.
func typeOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case float64:
		return "number"
	case string:
		return "string"
	case []any:
		return "list"
	default:
		return "object"
	}
}

// routeRow is a row of the table of routes in docs/compatibility.md.
var routeRow = regexp.MustCompile("(?m)^\\| `([A-Z]+ [^`]+)` \\| (same|better|not served) \\|")

// Served returns for each route what docs/compatibility.md says about it: same, better or not served.
func Served(page string) map[string]string {
	found := map[string]string{}
	for _, row := range routeRow.FindAllStringSubmatch(page, -1) {
		found[row[1]] = row[2]
	}
	return found
}
