package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/belfry-mq/belfry/sql"
)

const (
	// maxQuestions bounds how often one text asks the database.
	maxQuestions = 64
	// maxRunes bounds the number of remembered characters.
	maxRunes = 1 << 16
)

var sqlStores = sql.Query("postgres/stores")

// repertoire remembers which characters the encoding of the database has. Its zero value is empty.
type repertoire struct {
	mu       sync.Mutex
	encoding string        // server_encoding of the newest connection
	stored   map[rune]bool // whether the encoding has a character
}

// setEncoding is called with the encoding of each new connection.
func (r *repertoire) setEncoding(encoding string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.encoding != encoding {
		r.encoding, r.stored = encoding, map[rune]bool{}
	}
}

// Storable changes a free text, such as an error, a reason or a subject, so that the database can store it. NUL and bytes that
// are not UTF-8 become U+FFFD. If the encoding of the database is not UTF8, characters that it lacks become "?". Storable never
// fails. For a text with new characters it asks the database, in at most maxQuestions round trips. If this limit is reached,
// other characters become "?" too.
//
// Do not use it for names, because two names could become one.
func (p *Pool) Storable(ctx context.Context, text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	missing := p.missing(ctx, text)
	if len(missing) == 0 {
		return text
	}
	return strings.Map(func(r rune) rune {
		if missing[r] {
			return '?'
		}
		return r
	}, text)
}

// StorableJSON returns JSON as the database can store it. Characters that the encoding of the database lacks become escapes, so
// the value is the same.
func (p *Pool) StorableJSON(ctx context.Context, value []byte) []byte {
	missing := p.missing(ctx, string(value))
	if len(missing) == 0 {
		return value
	}
	out := make([]byte, 0, 2*len(value))
	for _, r := range string(value) {
		if !missing[r] {
			out = utf8.AppendRune(out, r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	return out
}

// missing returns the characters of a text that the database may not be able to store.
func (p *Pool) missing(ctx context.Context, text string) map[rune]bool {
	r := &p.repertoire
	r.mu.Lock()
	missing := map[rune]bool{}
	var unknown []rune
	if r.encoding != "UTF8" && r.encoding != "SQL_ASCII" {
		for _, c := range text {
			switch stored, known := r.stored[c]; {
			case c < utf8.RuneSelf || known && stored || missing[c]:
			default:
				missing[c] = true
				if !known {
					unknown = append(unknown, c)
				}
			}
		}
	}
	r.mu.Unlock()
	if len(unknown) > 0 {
		ctx, cancel := p.Bounded(ctx)
		defer cancel()
		questions := maxQuestions
		for _, c := range p.ask(ctx, unknown, &questions) {
			delete(missing, c)
		}
	}
	return missing
}

// ask returns the characters of runes that the database can store. Each call uses one of the questions. When no question is left,
// ask omits the remaining characters.
func (p *Pool) ask(ctx context.Context, runes []rune, questions *int) (stored []rune) {
	if *questions--; *questions < 0 || ctx.Err() != nil {
		return nil
	}
	_, err := p.Exec(ctx, sqlStores, string(runes))
	switch state := SQLState(err); {
	case err == nil:
		p.repertoire.learn(runes, true)
		return runes
	case state != "22P05" && state != "22021":
		return nil
	case len(runes) == 1:
		p.repertoire.learn(runes, false)
		return nil
	}
	half := len(runes) / 2
	return slices.Concat(p.ask(ctx, runes[:half], questions), p.ask(ctx, runes[half:], questions))
}

func (r *repertoire) learn(runes []rune, stored bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stored == nil || len(r.stored) > maxRunes {
		r.stored = map[rune]bool{}
	}
	for _, c := range runes {
		r.stored[c] = stored
	}
}
