package page

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
)

// done are the actions of the audit in words.
var done = map[string]string{
	"queue.configure": "Changed the options", "queue.delete": "Deleted the queue", "group.delete": "Deleted the group",
	"group.subscription": "Changed the start of new groups", "group.seek": "Moved the group",
	"dead_letters.redrive": "Redrove dead letters", "dead_letters.stop": "Stopped a redrive job", "dead_letters.purge": "Purged dead letters",
	"message.delete": "Deleted a message", "message.dead_letter": "Made a message a dead letter", "message.retry": "Retried a message",
	"message.resend": "Sent a message again", "message.move": "Moved a message to another instant",
	"schedule.set": "Set a schedule", "schedule.delete": "Deleted a schedule", "schedule.run": "Stored a message of a schedule",
	"schedule.pause": "Paused a schedule", "schedule.resume": "Resumed a schedule",
	"limits.set": "Set limits", "limits.remove": "Removed limits",
	"delivery.pause": "Paused the delivery", "delivery.resume": "Resumed the delivery", "stream.delete": "Deleted a stream query",
	"maintenance.push": "Turned push maintenance", "maintenance.pop": "Turned pop maintenance",
	"maintenance.retry": "Retried rejected messages", "maintenance.discard": "Removed rejected messages",
	"inbox.retry": "Retried rejected rows", "inbox.discard": "Deleted rejected rows",
	"token.revoke": "Revoked a token", "token.create": "Created a token", "grant.give": "Gave a grant", "grant.revoke": "Revoked a grant",
}

// Done returns an action of the audit in words.
func Done(action string) string {
	if text := done[action]; text != "" {
		return text
	}
	return spaced(action)
}

// spaced returns a name of a program as words: dead_letters and deadLetters are "dead letters".
func spaced(text string) string {
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == '_' || r == '.':
			b.WriteRune(' ')
		case unicode.IsUpper(r) && i > 0:
			b.WriteRune(' ')
			b.WriteRune(unicode.ToLower(r))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// member is a member of a JSON object.
type member struct {
	name  string
	value json.RawMessage
}

// members returns the members of a JSON object, in the order of the text. It returns none for another value.
func members(value json.RawMessage) (list []member) {
	read := json.NewDecoder(bytes.NewReader(value))
	if open, err := read.Token(); err != nil || open != json.Delim('{') {
		return nil
	}
	for read.More() {
		name, err := read.Token()
		if err != nil {
			return list
		}
		text, _ := name.(string)
		one := member{name: text}
		if read.Decode(&one.value) != nil {
			return list
		}
		list = append(list, one)
	}
	return list
}

// inWords returns the parameters of a change: "leaseTime 60, retryLimit 5". Members of an inner object are in the same list.
func inWords(value json.RawMessage) string { return ClipText(strings.Join(pairsOf(value), ", ")) }

func pairsOf(value json.RawMessage) (list []string) {
	for _, one := range members(value) {
		if inner := pairsOf(one.value); len(inner) > 0 {
			list = append(list, inner...)
			continue
		}
		text := &bytes.Buffer{}
		if json.Compact(text, one.value) != nil {
			continue
		}
		shown := text.String()
		switch shown {
		case "true":
			shown = "on"
		case "false":
			shown = "off"
		case "null":
			shown = "default"
		default:
			var words string
			if json.Unmarshal(one.value, &words) == nil {
				shown = words
			}
		}
		list = append(list, one.name+" "+shown)
	}
	return list
}

// counted returns the numbers of a change: "3 dead letters, 1 group". Zeros are left out.
func counted(value json.RawMessage) string {
	var list []string
	for _, one := range members(value) {
		var n int64
		if json.Unmarshal(one.value, &n) != nil || n == 0 {
			continue
		}
		many := spaced(one.name)
		list = append(list, Plural(n, strings.TrimSuffix(many, "s"), many))
	}
	return strings.Join(list, ", ")
}

// Actions returns the actions that the audit records with their words, in the order of the words.
func Actions() []Choice {
	var list []Choice
	for action, text := range done {
		list = append(list, Choice{action, text})
	}
	slices.SortFunc(list, func(a, b Choice) int { return cmp.Compare(a.Text, b.Text) })
	return list
}
