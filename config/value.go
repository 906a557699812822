package config

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/belfry-mq/belfry/config/setting"
)

var durationType = reflect.TypeFor[time.Duration]()

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// parse reads text as a value of the key's type. ok is false if the text has another type.
func (k key) parse(text string) (value any, ok bool) {
	var err error
	switch {
	case k.typ == durationType:
		value, err = time.ParseDuration(text)
	case k.isSize():
		value, err = parseSize(text)
	default:
		value, err = parseKind(k.typ, text)
	}
	return value, err == nil
}

func parseKind(t reflect.Type, text string) (any, error) {
	switch t.Kind() {
	case reflect.String:
		if !utf8.ValidString(text) {
			return nil, fmt.Errorf("reading %q as text", text)
		}
		return text, nil
	case reflect.Slice:
		return parseList(text), nil
	case reflect.Bool:
		switch strings.ToLower(text) {
		case "true":
			return true, nil
		case "false":
			return false, nil
		}
		return nil, fmt.Errorf("reading %q as true or false", text)
	case reflect.Int, reflect.Int32, reflect.Int64:
		return strconv.ParseInt(text, 10, t.Bits())
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		if err == nil && (math.IsNaN(f) || math.IsInf(f, 0)) {
			err = fmt.Errorf("reading %q as a finite number", text)
		}
		return f, err
	default:
		return nil, fmt.Errorf("reading a value of the type %s: a setting cannot have this type", t)
	}
}

// parseList reads texts with commas between them. The result is nil for an empty text.
func parseList(text string) []string {
	var list []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list
}

func parseSize(text string) (int64, error) {
	for _, u := range sizeUnits {
		digits, found := strings.CutSuffix(text, u.suffix)
		if !found {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err == nil && (n > math.MaxInt64/u.bytes || n < math.MinInt64/u.bytes) {
			err = strconv.ErrRange
		}
		return n * u.bytes, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// expected describes the values that parse accepts.
func (k key) expected() string {
	switch {
	case k.typ == durationType:
		return "a duration such as 100ms, 5s or 2m"
	case k.isSize():
		return "a size in bytes such as 16777216 or 16MiB"
	case k.typ.Kind() == reflect.String:
		return "text"
	case k.isList():
		return "a list of texts"
	case k.typ.Kind() == reflect.Bool:
		return "true or false"
	case k.typ.Kind() == reflect.Float64:
		return "a number such as 1.5"
	case k.typ.Bits() == 32:
		return "a whole number of at most 2147483647"
	default:
		return "a whole number"
	}
}

// format is the inverse of parse, in the usual notation.
func (k key) format(value any) string {
	switch v := value.(type) {
	case time.Duration:
		return formatDuration(v)
	case []string:
		return strings.Join(v, ",")
	case setting.Secret:
		return v.Reveal()
	case int64:
		if k.isSize() {
			return formatSize(v)
		}
	}
	return fmt.Sprint(value)
}

// formatDuration returns 5m and 1h where String returns 5m0s and 1h0m0s.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func formatSize(n int64) string {
	for _, u := range sizeUnits {
		if n != 0 && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.suffix
		}
	}
	return strconv.FormatInt(n, 10)
}
