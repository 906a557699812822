package page

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxError is the most bytes that a list shows of an error text.
const maxError = 400

// size writes a number of bytes.
func size(count int64) string {
	n := float64(count)
	for _, unit := range []string{"B", "KiB", "MiB", "GiB"} {
		if n < 1024 {
			return strconv.FormatFloat(n, 'f', map[bool]int{true: 0, false: 1}[unit == "B" || n >= 100], 64) + " " + unit
		}
		n /= 1024
	}
	return strconv.FormatFloat(n, 'f', 1, 64) + " TiB"
}

// oneLine writes the members of a JSON object in one line. It returns nothing for null and for no member.
func oneLine(value json.RawMessage) string {
	b := &bytes.Buffer{}
	if json.Compact(b, value) != nil || b.String() == "null" || b.String() == "{}" {
		return ""
	}
	return ClipText(strings.Trim(b.String(), "{}"))
}

// statusText writes the status of a message for people.
func statusText(status string) string {
	switch status {
	case "dead_letter":
		return "dead letter"
	case "processing":
		return "in delivery"
	}
	return status
}

// Quoted returns a text as JSON.
func Quoted(text string) string {
	encoded, err := json.Marshal(text)
	if err != nil {
		return `""`
	}
	return string(encoded)
}

// ClipText returns the beginning of a text that is long.
func ClipText(text string) string {
	if len(text) <= maxError {
		return text
	}
	end := maxError
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}
