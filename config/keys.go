package config

import (
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/agnivade/levenshtein"

	"github.com/belfry-mq/belfry/config/setting"
)

const envPrefix = "BELFRY_"

// key is one setting: its dotted name and its field in Config.
type key struct {
	name  string
	index []int
	typ   reflect.Type
}

// allKeys returns the settings in the order of the structs.
var allKeys = sync.OnceValue(func() []key { return keysOf(reflect.TypeFor[Config](), "", nil) })

func keyNames() []string {
	names := make([]string, len(allKeys()))
	for i, k := range allKeys() {
		names[i] = k.name
	}
	return names
}

// keyNamed returns the key with a name. It panics if there is no such key.
func keyNamed(name string) key { return allKeys()[slices.Index(keyNames(), name)] }

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

// redact returns the printable form of a value: a DSN without its password, *** for another
// secret, and the text itself otherwise.
func (k key) redact(text string) string {
	switch {
	case !k.isSecret() || text == "":
		return text
	case strings.HasSuffix(k.name, "url"):
		return hideSecrets(text)
	default:
		return setting.Hidden
	}
}

// isSecret reports whether the value must not be printed. The variable of a secret has a _FILE form.
func (k key) isSecret() bool { return k.typ == reflect.TypeFor[setting.Secret]() }

// isSize reports whether the value is a number of bytes, which can be written as 16MiB.
func (k key) isSize() bool { return strings.HasSuffix(k.name, "_bytes") }

// isList reports whether the value is a list of texts. A variable separates them by commas.
func (k key) isList() bool { return k.typ.Kind() == reflect.Slice }

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

// nearest returns the first candidate with the smallest edit distance to name.
func nearest(name string, candidates []string) string {
	return slices.MinFunc(candidates, func(a, b string) int {
		return levenshtein.ComputeDistance(name, a) - levenshtein.ComputeDistance(name, b)
	})
}
