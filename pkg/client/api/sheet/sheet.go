// Package sheet writes lists of the HTTP API as CSV.
package sheet

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
)

var (
	deadLetterHeader = []string{"failedAt", "queue", "partition", "consumerGroup", "transactionId", "retryCount", "errorMessage", "data", "dataError", "id", "partitionId", "producerSub", "createdAt"}
	messageHeader    = []string{"createdAt", "queue", "partition", "transactionId", "status", "id", "partitionId", "traceId", "producerSub", "namespace", "task"}
)

// Write writes a list, api.DeadLetters or api.Messages, as CSV (RFC 4180), with a line for each row. With header, the first
// line has the names of the columns. A text that a spreadsheet would take for a formula gets an apostrophe in front. It
// returns the first error of w.
func Write(w io.Writer, list any, header bool) error {
	names, rows := table(list)
	to := csv.NewWriter(w)
	to.UseCRLF = true
	if header {
		_ = to.Write(names) // Flush keeps the error
	}
	for _, row := range rows {
		for i := range row {
			row[i] = guarded(row[i])
		}
		_ = to.Write(row)
	}
	to.Flush()
	return to.Error()
}

// guarded puts an apostrophe before a text that a spreadsheet would take for a formula. Then the spreadsheet shows the
// text, and runs nothing.
func guarded(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}

// table returns the columns and the rows of a list.
func table(value any) (header []string, rows [][]string) {
	switch list := value.(type) {
	case api.DeadLetters:
		for i := range list.Messages {
			l := &list.Messages[i]
			rows = append(rows, []string{
				instant(&l.FailedAt), l.Queue, l.Partition, l.ConsumerGroup, text(l.TransactionID), strconv.FormatInt(l.RetryCount, 10), l.ErrorMessage,
				string(l.Data), l.DataError, text(l.ID), l.PartitionID, text(l.ProducerSub), instant(l.CreatedAt),
			})
		}
		return deadLetterHeader, rows
	case api.Messages:
		for i := range list.Messages {
			m := &list.Messages[i]
			rows = append(rows, []string{
				instant(&m.CreatedAt), m.Queue, m.Partition, m.TransactionID, m.Status, m.ID, m.PartitionID, text(m.TraceID), text(m.ProducerSub), m.Namespace, m.Task,
			})
		}
		return messageHeader, rows
	}
	return nil, nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// instant returns an instant in the format of the JSON answers, or "" without one.
func instant(at *time.Time) string {
	if at == nil || at.IsZero() {
		return ""
	}
	return at.UTC().Format("2006-01-02T15:04:05.000Z")
}
