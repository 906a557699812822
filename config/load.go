package config

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/spf13/viper"
)

// Options is the input of Load. Load reads nothing from the process itself.
type Options struct {
	// Environ holds NAME=value pairs, as os.Environ returns them. A variable with an empty
	// value counts as not set.
	Environ []string
	// File is the path of the YAML file. If it is empty, Load uses the path in BELFRY_CONFIG.
	// If both are empty, Load reads no file.
	File string
	// Flags maps the key of each flag on the command line ("http.addr") to its value.
	Flags map[string]string
}

// Error lists all problems of a configuration.
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

// Refuse returns an *Error that lists each error joined in err. It returns nil if err is nil.
func Refuse(err error) error {
	var l loader
	l.fail(err)
	if len(l.problems) == 0 {
		return nil
	}
	return &Error{Problems: l.problems}
}

// entry is the text of a value and its source.
type entry struct {
	text   string
	source string
}

// Load composes the configuration from these layers; for each key the last layer wins:
// default, file, variable of Queen MQ, BELFRY_ variable, flag. The only error is *Error,
// which lists all problems.
func Load(opts Options) (Config, error) {
	l := &loader{
		env:     withoutServiceVariables(environment(opts.Environ)),
		v:       viper.New(),
		sources: map[string]string{},
	}
	for _, k := range allKeys() {
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
	upper := maps.Clone(env)
	maps.Copy(upper, flags)
	l.apply(l.fromAliases(upper))
	l.apply(env)
	l.apply(flags)

	var cfg Config
	if err := l.v.UnmarshalExact(&cfg); err != nil {
		l.fail(fmt.Errorf("decoding the settings: %w", err))
	}
	cfg.sources, cfg.ignored, cfg.unknown = l.sources, l.ignored(), l.unknown
	read := len(l.problems)
	l.fail(cfg.Validate())
	for i, problem := range l.problems[read:] {
		l.problems[read+i] = l.withSource(problem)
	}
	if len(l.problems) > 0 {
		return Config{}, &Error{Problems: l.problems}
	}
	return cfg, nil
}

// loader is the state of one Load.
type loader struct {
	env      map[string]string
	v        *viper.Viper
	sources  map[string]string
	problems []error
	// unknown has the variables with the prefix BELFRY_ that do not resemble a setting.
	unknown []string
}

// fail adds err, or each part of a joined error, to the problems. It ignores nil.
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

// withSource adds the source of the value to an error of Validate. The first word of the
// error is the key.
func (l *loader) withSource(problem error) error {
	key, _, _ := strings.Cut(problem.Error(), " ")
	if source := l.sources[key]; source != "" {
		return fmt.Errorf("%w (%s)", problem, source)
	}
	return problem
}

// apply parses a layer and puts it over the lower layers. If a value has the wrong type, the
// value of the lower layer stays, so that Validate sees only parsed values.
func (l *loader) apply(layer map[string]entry) {
	for _, k := range allKeys() {
		s, found := layer[k.name]
		if !found {
			continue
		}
		value, ok := k.parse(s.text)
		if !ok {
			l.fail(fmt.Errorf("%s is %q (%s): it must be %s", k.name, k.redact(s.text), s.source, k.expected()))
			continue
		}
		l.v.Set(k.name, value)
		l.sources[k.name] = s.source
	}
}

func (l *loader) fromFlags(flags map[string]string) map[string]entry {
	layer := map[string]entry{}
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		if !slices.Contains(keyNames(), name) {
			l.fail(fmt.Errorf("the flag --%s is unknown: did you mean the setting %s?", FlagName(name), nearest(name, keyNames())))
			continue
		}
		layer[name] = entry{text: flags[name], source: "flag --" + FlagName(name)}
	}
	return layer
}

// fromEnv reads the BELFRY_ variables.
func (l *loader) fromEnv() map[string]entry {
	known := []string{"BELFRY_CONFIG"}
	layer := map[string]entry{}
	for _, k := range allKeys() {
		name := EnvName(k.name)
		known = append(known, name)
		if k.isSecret() {
			known = append(known, name+fileSuffix)
		}
		if text, used, ok := l.variable(k, name); ok {
			layer[k.name] = entry{text: text, source: "env " + used}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.env)) {
		if !isReserved(name) || slices.Contains(known, name) {
			continue
		}
		if !resemblesKey(name, known) {
			l.unknown = append(l.unknown, name)
			continue
		}
		l.fail(fmt.Errorf("the environment variable %s is unknown: did you mean %s? Rename or unset it", name, nearest(name, known)))
	}
	return layer
}

// resemblesKey reports whether a variable is probably a mistyped setting. A variable resembles a setting if it begins with
// BELFRY_ and the name of a section, if it is almost BELFRY_ with a variable of Queen MQ, or if it differs in few letters from
// a known variable.
func resemblesKey(name string, known []string) bool {
	const fewLetters = 3
	queenNames := []string{"HOST", "PORT"} // the variables of Queen MQ for http.addr
	for _, a := range aliases {
		queenNames = append(queenNames, a.names...)
	}
	for _, alias := range queenNames {
		if levenshtein.ComputeDistance(name, envPrefix+alias) <= 1 {
			return true
		}
	}
	for _, k := range allKeys() {
		section, _, _ := strings.Cut(k.name, ".")
		if strings.HasPrefix(name, EnvName(section)+"_") {
			return true
		}
	}
	return levenshtein.ComputeDistance(name, nearest(name, known)) <= fewLetters
}

// variable returns the value of k from the variable name. used is the variable that has the value: name, or name_FILE for a
// secret.
func (l *loader) variable(k key, name string) (text, used string, ok bool) {
	if k.isSecret() {
		return l.secretOf(name)
	}
	return l.env[name], name, l.env[name] != ""
}

// otherVariables are not settings. Commands and the development database read them.
var otherVariables = []string{
	"BELFRY_CONFIG", "BELFRY_PG_BIN", "BELFRY_SERVER", "BELFRY_TOKEN", "BELFRY_CONTEXT", "BELFRY_CONTEXTS", "BELFRY_CA_FILE",
}

// isReserved reports whether only a setting may have the name of a variable.
func isReserved(name string) bool {
	return strings.HasPrefix(name, envPrefix) && !slices.Contains(otherVariables, name) && !strings.HasPrefix(name, "BELFRY_TEST_")
}

// serviceVariable matches a variable that Kubernetes sets in every container for each Service
// of its namespace. It matches the part after the name of the Service.
var serviceVariable = regexp.MustCompile(
	`^_(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT(?:_[0-9]+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)?)$`)

// withoutServiceVariables removes the variables of Kubernetes Services. The variables of a
// Service called belfry look like settings. PG_PORT of a Service called pg looks like the
// variable of Queen MQ. A Service always has a variable SERVICE_HOST, and its variable PORT is
// a URL. Variables without these signs stay, because the operator has set them.
func withoutServiceVariables(env map[string]string) map[string]string {
	left := maps.Clone(env)
	for host := range env {
		service, isHost := strings.CutSuffix(host, "_SERVICE_HOST")
		if !isHost || service == "" {
			continue
		}
		for name, text := range env {
			rest, ofService := strings.CutPrefix(name, service)
			if ofService && serviceVariable.MatchString(rest) && (rest != "_PORT" || strings.Contains(text, "://")) {
				delete(left, name)
			}
		}
	}
	return left
}

// fromFile reads the YAML file at path.
func (l *loader) fromFile(path string) map[string]entry {
	data, err := os.ReadFile(path)
	if err != nil {
		l.fail(fmt.Errorf("reading the configuration file (from --config or BELFRY_CONFIG): %w", err))
		return nil
	}
	layer, err := parseFile(path, data)
	l.fail(err)
	return layer
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
