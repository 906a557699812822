package config

import (
	"reflect"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

const envPrefix = "BELFRY_"

// key is one setting: its dotted name and where it lives in Config.
type key struct {
	name  string
	index []int
	typ   reflect.Type
}

// allKeys lists the settings in the order of the structs.
func allKeys() []key { return keysOf(reflect.TypeFor[Config](), "", nil) }

func keysOf(t reflect.Type, prefix string, index []int) []key {
	var keys []key
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("mapstructure")
		if tag == "" {
			continue
		}
		at := append(slices.Clone(index), i)
		if f.Type.Kind() == reflect.Struct {
			keys = append(keys, keysOf(f.Type, prefix+tag+".", at)...)
			continue
		}
		keys = append(keys, key{name: prefix + tag, index: at, typ: f.Type})
	}
	return keys
}

// valueIn returns the key's value in c.
func (k key) valueIn(c Config) any {
	return reflect.ValueOf(c).FieldByIndex(k.index).Interface()
}

// hide returns a value of this key as it may be shown: without the password of
// a DSN, and nothing of a secret.
func (k key) hide(text string) string {
	switch {
	case strings.HasSuffix(k.name, "url"):
		return hideSecrets(text)
	case k.name == "encryption.key" && text != "":
		return hidden
	default:
		return text
	}
}

// isSize says whether the value counts bytes, so that 16MiB may be written.
func (k key) isSize() bool { return strings.HasSuffix(k.name, "_bytes") }

// EnvName returns the environment variable of a key:
// "http.addr" is BELFRY_HTTP_ADDR.
func EnvName(key string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// FlagName returns the flag of a key, without dashes in front:
// "http.addr" is http-addr.
func FlagName(key string) string {
	return strings.NewReplacer(".", "-", "_", "-").Replace(key)
}

// nearest returns the candidate with the fewest edits to name; the first one of
// several.
func nearest(name string, candidates []string) string {
	return slices.MinFunc(candidates, func(a, b string) int {
		return levenshtein.ComputeDistance(name, a) - levenshtein.ComputeDistance(name, b)
	})
}
