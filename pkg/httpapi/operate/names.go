package operate

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// nameMember reads a member of a body that is a name or a transaction id.
func nameMember(field string, value jsontext.Value, into **string) error {
	name, ok := wire.Text(value)
	if !ok {
		return queue.Invalidf("%s must be a string, not %s", field, wire.Clip(string(value)))
	}
	*into = &name
	if field == "transactionId" {
		if strings.ContainsRune(name, 0) {
			return queue.Invalidf("transactionId contains a NUL character: remove it")
		}
		return nil
	}
	return wire.CheckName(field, name)
}

// orEmpty returns the text, or "" for nil.
func orEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
