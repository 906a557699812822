package schedule

import (
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// transactionID returns the transaction id of the message of an instant. A partition stores it once.
func transactionID(name string, instant time.Time) string { return name + "@" + format(instant) }

// transactionIDOfRun returns the transaction id of a message of RunNow. It differs from the ids of all instants.
func transactionIDOfRun(name string, now time.Time) string { return transactionID(name, now) + "/run" }

func format(instant time.Time) string { return instant.UTC().Format(time.RFC3339Nano) }

// filler returns what replaces the two variables in JSON: the name of a schedule and an instant. A JSON value has "{{" only in
// a string, so both are escaped as parts of a string.
func filler(name string, instant time.Time) *strings.Replacer {
	quoted, err := jsontext.AppendQuote(nil, name)
	if err != nil {
		quoted = []byte(`""`) // Postgres stores only valid UTF-8
	}
	return strings.NewReplacer("{{schedule}}", string(quoted[1:len(quoted)-1]), "{{scheduled_at}}", format(instant))
}
