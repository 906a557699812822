package page

import (
	"html/template"
	"net/url"

	"github.com/belfry-mq/belfry/pkg/client/api"
)

// DeadRow is a dead letter whose message is stored, with what its row can do.
type DeadRow struct {
	// Chosen identifies the dead letter in the form of the chosen ones.
	Chosen string
	// Message is the page of the message.
	Message template.URL
	// ID is the transaction id. Retry is the command that delivers the message again.
	ID    string
	Retry Command
}

// LetterRow returns the row of a dead letter, or nil if its message is deleted.
func LetterRow(r *Request, l *api.DeadLetter) *DeadRow {
	if l.TransactionID == nil {
		return nil
	}
	partition, id, group := l.PartitionID, *l.TransactionID, l.ConsumerGroup
	return &DeadRow{
		Chosen:  url.Values{"partition": {partition}, "transaction": {id}, "group": {group}}.Encode(),
		Message: Link("message", "partition", partition, "t", id), ID: id,
		Retry: r.Command("Deliver it again", "POST", "/api/v1/messages/"+url.PathEscape(partition)+"/"+url.PathEscape(id)+"/retry",
			`{"consumerGroup": `+Quoted(group)+`}`, append([]string{"messages", "retry", partition, id}, CLIGroup(group)...)),
	}
}
