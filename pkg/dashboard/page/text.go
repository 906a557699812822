package page

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxError is how many bytes of an error text a list shows.
const maxError = 400

// size formats a number of bytes.
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

// statusText returns the displayed status of a message.
func statusText(status string) string {
	switch status {
	case "dead_letter":
		return "dead letter"
	case "processing":
		return "in delivery"
	}
	return status
}

// Quoted returns a text as a JSON string.
func Quoted(text string) string {
	b := &bytes.Buffer{}
	write := json.NewEncoder(b)
	write.SetEscapeHTML(false)
	if err := write.Encode(text); err != nil {
		return `""`
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// ClipText returns the first maxError bytes of a text. It appends "…" to a longer text.
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
