package config

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/viper"
)

// Options is everything Load looks at. Nothing is read from the process itself.
type Options struct {
	// Environ holds NAME=value pairs, as os.Environ returns them. A variable
	// with an empty value counts as not set.
	Environ []string
	// File is the path of the YAML file; empty means the one BELFRY_CONFIG
	// names, or none. No file is picked up from the working folder.
	File string
	// Flags holds the flags a person typed: key ("http.addr") to value.
	Flags map[string]string
}

// Error lists everything that is wrong with a configuration.
type Error struct{ Problems []error }

// Error returns one line per problem under a heading.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("the configuration cannot be used:")
	for _, p := range e.Problems {
		b.WriteString("\n  - ")
		b.WriteString(p.Error())
	}
	return b.String()
}

// Unwrap returns the problems.
func (e *Error) Unwrap() []error { return e.Problems }

// setting is a value as it was written, and where.
type setting struct {
	text   string
	source string
}

// Load composes the configuration; of several values for a key the last of
// these wins: default, file, variable of the reference system, BELFRY_ variable,
// flag. Every problem found is in the one *Error it returns.
func Load(opts Options) (Config, error) {
	l := &loader{
		keys:    allKeys(),
		env:     withoutServices(environment(opts.Environ)),
		v:       viper.New(),
		sources: map[string]string{},
	}
	for _, k := range l.keys {
		l.v.SetDefault(k.name, k.valueIn(Default()))
	}
	flags, env := l.fromFlags(opts.Flags), l.fromEnv()
	file := opts.File
	if file == "" {
		file = l.env["BELFRY_CONFIG"]
	}
	if file != "" {
		l.apply(l.fromFile(file))
	}
	l.apply(l.fromAliases(func(key string) bool {
		_, inEnv := env[key]
		_, inFlags := flags[key]
		return inEnv || inFlags
	}))
	l.apply(env)
	l.apply(flags)

	var cfg Config
	if err := l.v.UnmarshalExact(&cfg); err != nil {
		l.fail(fmt.Errorf("decoding the settings: %w", err))
	}
	cfg.sources = l.sources
	read := len(l.problems)
	l.fail(cfg.Validate())
	for i, problem := range l.problems[read:] {
		l.problems[read+i] = l.sourced(problem)
	}
	if len(l.problems) > 0 {
		return Config{}, &Error{Problems: l.problems}
	}
	return cfg, nil
}

// loader carries one Load.
type loader struct {
	keys     []key
	env      map[string]string
	v        *viper.Viper
	sources  map[string]string
	problems []error
}

// fail notes err, or each part of a joined one; nil is nothing.
func (l *loader) fail(err error) {
	if err == nil {
		return
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, part := range joined.Unwrap() {
			l.fail(part)
		}
		return
	}
	l.problems = append(l.problems, err)
}

// sourced says where the value came from that Validate complains of; its key is the
// first word.
func (l *loader) sourced(problem error) error {
	key, _, _ := strings.Cut(problem.Error(), " ")
	if source := l.sources[key]; source != "" {
		return fmt.Errorf("%w (%s)", problem, source)
	}
	return problem
}

// apply parses a layer over the ones below. A value that cannot be read leaves
// the one below in place, so that Validate complains about real values only.
func (l *loader) apply(layer map[string]setting) {
	for _, k := range l.keys {
		s, found := layer[k.name]
		if !found {
			continue
		}
		value, ok := k.parse(s.text)
		if !ok {
			l.failType(k, s)
			continue
		}
		l.v.Set(k.name, value)
		l.sources[k.name] = s.source
	}
}

func (l *loader) failType(k key, s setting) {
	l.fail(fmt.Errorf("%s is %q (%s): it must be %s", k.name, k.hide(s.text), s.source, k.expected()))
}

func (l *loader) fromFlags(flags map[string]string) map[string]setting {
	layer := map[string]setting{}
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		if !slices.Contains(l.names(), name) {
			l.fail(fmt.Errorf("flag --%s sets no setting: the nearest is %s", FlagName(name), nearest(name, l.names())))
			continue
		}
		layer[name] = setting{text: flags[name], source: "flag --" + FlagName(name)}
	}
	return layer
}

// fromEnv takes the BELFRY_ variables.
func (l *loader) fromEnv() map[string]setting {
	byEnv := map[string]string{}
	known := []string{"BELFRY_CONFIG"}
	for _, k := range l.keys {
		byEnv[EnvName(k.name)] = k.name
		known = append(known, EnvName(k.name))
	}
	layer := map[string]setting{}
	var unknown []string
	for name, text := range l.env {
		key, found := byEnv[name]
		switch {
		case found && text != "":
			layer[key] = setting{text: text, source: "env " + name}
		case !found && isStranger(name):
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	for _, name := range unknown {
		l.fail(fmt.Errorf("the environment variable %s is unknown: the nearest is %s; rename or unset it",
			name, nearest(name, known)))
	}
	return layer
}

// isStranger says whether a variable that sets no key claims to be ours.
func isStranger(name string) bool {
	return strings.HasPrefix(name, envPrefix) &&
		name != "BELFRY_CONFIG" && name != "BELFRY_PG_BIN" && !strings.HasPrefix(name, "BELFRY_TEST_")
}

// serviceVariable matches what Kubernetes sets in every container for each Service of
// its namespace, behind the Service's name.
var serviceVariable = regexp.MustCompile(
	`^_(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT(?:_[0-9]+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)?)$`)

// withoutServices removes those variables: for a Service called belfry they look like
// settings, and PG_PORT, for one called pg, like that of the reference system. A Service
// has all of them or none, and its PORT is a URL; what is not so is somebody's mistake.
func withoutServices(env map[string]string) map[string]string {
	left := maps.Clone(env)
	for host := range env {
		service, isHost := strings.CutSuffix(host, "_SERVICE_HOST")
		if !isHost || service == "" {
			continue
		}
		for name, text := range env {
			rest, ofIt := strings.CutPrefix(name, service)
			if ofIt && serviceVariable.MatchString(rest) && (rest != "_PORT" || strings.Contains(text, "://")) {
				delete(left, name)
			}
		}
	}
	return left
}

// fromFile takes the YAML file at path.
func (l *loader) fromFile(path string) map[string]setting {
	data, err := os.ReadFile(path)
	if err != nil {
		l.fail(fmt.Errorf("reading the configuration file (from --config or BELFRY_CONFIG): %w", err))
		return nil
	}
	layer, err := parseFile(path, data, l.keys)
	l.fail(err)
	return layer
}

func (l *loader) names() []string {
	names := make([]string, len(l.keys))
	for i, k := range l.keys {
		names[i] = k.name
	}
	return names
}

func environment(environ []string) map[string]string {
	env := map[string]string{}
	for _, pair := range environ {
		if name, value, found := strings.Cut(pair, "="); found {
			env[name] = value
		}
	}
	return env
}
