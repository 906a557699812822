package data

import (
	"fmt"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// itemMembers are the members of a pushed item.
var itemMembers = []string{"queue", "partition", "payload", "transactionId", "traceId", "headers", "delaySeconds", "visibleAt", "tenant"}

const (
	// maxUnknown is the maximum number of unknown members of one item that are kept.
	maxUnknown = 3
	// fewEdits is the largest edit distance between a misspelled member and the suggested member.
	fewEdits = 2
	// fewLetters is the minimum length of an unknown member for which the server suggests a known member.
	fewLetters = 4
)

// spelling reads the pushed items of a request, and finds unknown members.
type spelling struct {
	// strict means that an unknown member is an error.
	strict bool
	// warnings maps the index of an item in the answer to the warnings of the item.
	warnings map[int][]string
}

// spellingOf returns the spelling for a request. ?strict=true or ?strict=1 makes it strict.
func spellingOf(c echo.Context) spelling {
	return spelling{strict: wire.IsTrue(c.QueryParam("strict"))}
}

// item reads and checks the item in raw. at is the index of the item in the answer. path is its name in errors.
func (s *spelling) item(at int, path string, raw jsontext.Value, place itemPlace) (queue.PushItem, error) {
	r, err := readItem(path, raw, place)
	if err == nil && s.strict {
		err = r.refuseUnknown()
	}
	if list := r.warnings(); len(list) > 0 {
		if s.warnings == nil {
			s.warnings = map[int][]string{}
		}
		s.warnings[at] = list
	}
	return r.PushItem, err
}

// appendWarnings appends the member warnings, unless the list is empty.
func appendWarnings(b []byte, warnings []string) []byte {
	before := `,"warnings":[`
	for _, warning := range warnings {
		b = wire.AppendString(b, before, warning)
		before = ","
	}
	if len(warnings) > 0 {
		b = append(b, ']')
	}
	return b
}

// unknownMember is an unknown member of an item. near is the known member that the client probably meant, or "".
type unknownMember struct{ name, near string }

func (r *itemReader) unknownMember(name string) {
	if len(r.unknown) < maxUnknown {
		r.unknown = append(r.unknown, unknownMember{name: name, near: nearMember(name)})
	}
}

// nearMember returns the known member whose name begins with name, or differs from it by at most fewEdits. Otherwise it
// returns "".
func nearMember(name string) string {
	plain := strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(wire.Clip(name)))
	if plain == "data" {
		return "payload" // in a transaction, data is another name of payload
	}
	if len(plain) < fewLetters {
		return ""
	}
	best, edits := "", fewEdits+1
	for _, member := range itemMembers {
		known := strings.ToLower(member)
		if strings.HasPrefix(known, plain) {
			return member
		}
		if len(plain) > len(known)+fewEdits {
			continue
		}
		if d := levenshtein.ComputeDistance(plain, known); d < edits {
			best, edits = member, d
		}
	}
	return best
}

// missingQueue returns the error for an item without a queue.
func (r *itemReader) missingQueue() error {
	for _, u := range r.unknown {
		if u.near == "queue" {
			return queue.Invalidf(`%squeue is missing; did you mean "queue" for %q?`, r.path, u.name)
		}
	}
	return queue.Invalidf("%squeue is missing", r.path)
}

// refuseUnknown returns an error for an item with an unknown member.
func (r *itemReader) refuseUnknown() error {
	if len(r.unknown) == 0 {
		return nil
	}
	u := r.unknown[0]
	if u.near == "" {
		return queue.Invalidf("%s%s is unknown, and the parameter strict is set: remove the member", r.path, wire.Clip(u.name))
	}
	return queue.Invalidf("%s%s is unknown, and the parameter strict is set; did you mean %s?", r.path, wire.Clip(u.name), u.near)
}

// warnings lists the unknown members that resemble a member of an item.
func (r *itemReader) warnings() (list []string) {
	for _, u := range r.unknown {
		if u.near != "" {
			list = append(list, fmt.Sprintf("%s%s is unknown and was ignored; did you mean %s?", r.path, wire.Clip(u.name), u.near))
		}
	}
	return list
}
