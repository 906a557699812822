package output

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Age returns the time since a timestamp as text.
func Age(value any) string {
	text, isText := value.(string)
	at, err := time.Parse(time.RFC3339Nano, text)
	if !isText || err != nil {
		return Plain(value)
	}
	return Short(time.Since(at))
}

// Short returns a duration as text, in its largest unit. A number below 10 is followed by the next smaller unit.
func Short(d time.Duration) string {
	sign := ""
	if d < 0 {
		sign, d = "in ", -d
	}
	for _, unit := range []struct {
		length time.Duration
		name   string
		next   time.Duration
		below  string
	}{
		{24 * time.Hour, "d", time.Hour, "h"}, {time.Hour, "h", time.Minute, "m"}, {time.Minute, "m", time.Second, "s"},
	} {
		if n := d / unit.length; n >= 10 {
			return fmt.Sprintf("%s%d%s", sign, n, unit.name)
		} else if n > 0 {
			return fmt.Sprintf("%s%d%s%d%s", sign, n, unit.name, d%unit.length/unit.next, unit.below)
		}
	}
	return fmt.Sprintf("%s%ds", sign, d/time.Second)
}

// List returns the elements of a list, separated by commas.
func List(value any) string {
	elements, ok := value.([]any)
	if !ok {
		return Plain(value)
	}
	texts := make([]string, len(elements))
	for i, e := range elements {
		texts[i] = Plain(e)
	}
	return strings.Join(texts, ",")
}

// Settings returns the members of an object as NAME=VALUE, sorted by name. It omits the values 0, false and "".
func Settings(value any) string {
	object, ok := value.(map[string]any)
	if !ok {
		return Plain(value)
	}
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(object)) {
		text := fmt.Sprint(object[name])
		if inner, nested := object[name].(map[string]any); nested {
			text = "{" + Settings(inner) + "}"
		}
		if text != "0" && text != "false" && text != "" {
			texts = append(texts, name+"="+text)
		}
	}
	return strings.Join(texts, " ")
}
