package httpapi

import (
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	kindPush = "push"
	kindAck  = "ack"
	// notApplied is the error of an operation that stood in nobody's way.
	notApplied = "Not applied: another part of the transaction failed"
)

// transaction serves POST /api/v1/transaction (wire contract, section 4.2). A
// transaction that was not applied is a 200 whose success is false: official
// clients read it there, and must not send it again by themselves.
func (s *Server) transaction(c echo.Context) error {
	body, err := s.readBody(c)
	if err != nil {
		return err
	}
	read, err := parseTransaction(body)
	if err != nil {
		return err
	}
	if read.unknown != nil {
		result := queue.TransactionResult{Error: "Unknown operation type: " + clip(*read.unknown)}
		return answer(c, http.StatusOK, appendTransaction(nil, &queue.Transaction{}, &result))
	}
	result, err := s.deps.Verbs.Transact(c.Request().Context(), &read.tx)
	if err != nil {
		return err
	}
	if result.Applied {
		s.countTransaction(&result)
	}
	return answer(c, http.StatusOK, appendTransaction(make([]byte, 0, 256*len(result.Operations)), &read.tx, &result))
}

func (s *Server) countTransaction(result *queue.TransactionResult) {
	var pushed int
	var acked []queue.AckResult
	for _, op := range result.Operations {
		if op.Push != nil {
			pushed++
		} else {
			acked = append(acked, *op.Ack)
		}
	}
	s.deps.Metrics.pushed.Add(float64(pushed))
	s.deps.Metrics.acknowledged(acked)
}

// transactionBody is the body of a transaction as it is being read.
type transactionBody struct {
	tx queue.Transaction
	// unknown is the first operation type that is not known; nil: all are.
	unknown *string
}

// parseTransaction reads and checks a body. Everything is looked at before
// anything is stored; an unknown type is no error of the body but a refusal.
func parseTransaction(body []byte) (*transactionBody, error) {
	read := &transactionBody{}
	var isArray bool
	var operations int
	err := object(body, func(name string, value jsontext.Value) (err error) {
		switch name {
		case "operations":
			read.tx.Operations, read.unknown, operations = nil, nil, 0
			isArray, err = elements(value, func(element jsontext.Value) error {
				operations++
				return read.operation("operations["+strconv.Itoa(operations-1)+"]", element)
			})
		case "requiredLeases":
			read.tx.RequiredLeases, err = parseLeases(value)
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case !isArray:
		return nil, queue.Invalidf("operations array required")
	case operations == 0:
		return nil, queue.Invalidf("operations array cannot be empty")
	}
	return read, nil
}

// parseLeases reads requiredLeases; null, there and in it, says nothing.
func parseLeases(value jsontext.Value) ([]string, error) {
	if value.Kind() == 'n' {
		return nil, nil
	}
	var leases []string
	at := 0
	isArray, err := elements(value, func(element jsontext.Value) error {
		lease, ok := text(element)
		if !ok && element.Kind() != 'n' {
			return queue.Invalidf("requiredLeases[%d] must be a string, the leaseId of a pop", at)
		}
		if at++; at > queue.MaxOperations {
			return queue.Invalidf("requiredLeases holds more than %d leases: name each once", queue.MaxOperations)
		}
		leases = append(leases, lease)
		return nil
	})
	if err == nil && !isArray {
		err = queue.Invalidf("requiredLeases must be an array of the leaseIds of pops")
	}
	return leases, err
}

// operation reads one element of operations, which is at path.
func (read *transactionBody) operation(path string, raw jsontext.Value) error {
	var kind string
	var hasKind, flat bool
	var items jsontext.Value
	isObject, err := fields(raw, func(name string, value jsontext.Value) error {
		switch name {
		case "type":
			kind, hasKind = text(value)
		case "queue":
			flat = true // the push is one item itself
		case "items":
			if items = value.Clone(); value.Kind() == 'n' {
				items = nil
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case !isObject:
		return queue.Invalidf("%s must be an object", path)
	case !hasKind:
		return queue.Invalidf("%s.type must be a string, push or ack", path)
	case kind == kindPush && items != nil:
		return read.pushes(path, items)
	case kind == kindPush && !flat:
		return queue.Invalidf("%s.items must be an array", path)
	case kind == kindPush:
		return read.push(path, raw)
	case kind == kindAck:
		return read.ack(path, raw)
	case read.unknown == nil:
		read.unknown = &kind
	}
	return nil
}

func (read *transactionBody) pushes(path string, items jsontext.Value) error {
	at := 0
	isArray, err := elements(items, func(element jsontext.Value) error {
		at++
		return read.push(path+".items["+strconv.Itoa(at-1)+"]", element)
	})
	if err == nil && !isArray {
		err = queue.Invalidf("%s.items must be an array", path)
	}
	return err
}

func (read *transactionBody) push(path string, raw jsontext.Value) error {
	item, err := itemReader{path: path + ".", inTransaction: true}.read(raw)
	if err != nil {
		return err
	}
	return read.add(queue.Operation{Push: &item})
}

func (read *transactionBody) ack(path string, raw jsontext.Value) error {
	item := queue.AckItem{Group: queue.NoGroup, Status: queue.AckCompleted}
	var hasTransaction, hasPartition bool
	_, err := fields(raw, func(name string, value jsontext.Value) error {
		said, isString := text(value)
		said = withoutNUL(said) // what cannot be stored names nothing
		switch name {
		case "transactionId":
			item.TransactionID, hasTransaction = said, isString
			return nil
		case "partitionId":
			item.PartitionID, hasPartition = said, isString
			return nil
		case "status", "consumerGroup", "leaseId", "error":
		default:
			return nil
		}
		switch {
		case !isString && value.Kind() != 'n':
			return queue.Invalidf("%s.%s must be a string", path, name)
		case name == "error":
			item.Error = said
		case name == "leaseId":
			item.LeaseID = said
		case name == "consumerGroup":
			item.Group = groupOf(appendString(nil, said))
		case isString:
			item.Status = queue.ParseAckStatus(said)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case !hasTransaction:
		return queue.Invalidf("%s.transactionId must be a string", path)
	case !hasPartition:
		return queue.Invalidf("%s.partitionId must be a string: transaction ids are unique within a partition only", path)
	}
	return read.add(queue.Operation{Ack: &item})
}

func (read *transactionBody) add(op queue.Operation) error {
	if len(read.tx.Operations) == queue.MaxOperations {
		return queue.Invalidf("operations holds more than %d operations (each pushed item is one): send several transactions", queue.MaxOperations)
	}
	read.tx.Operations = append(read.tx.Operations, op)
	return nil
}

// appendTransaction writes the answer. What was not applied has no message ids.
func appendTransaction(b []byte, tx *queue.Transaction, result *queue.TransactionResult) []byte {
	b = append(b, `{"transactionId":`...)
	b = appendID(b, queue.NewID())
	b = append(b, `,"success":`...)
	b = strconv.AppendBool(b, result.Applied)
	if !result.Applied {
		b = append(b, `,"error":`...)
		b = appendString(b, result.Error)
	}
	b = append(b, `,"results":[`...)
	for i := range result.Operations {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendOperation(b, i, tx.Operations[i], &result.Operations[i], result.Applied)
	}
	return append(b, "]}"...)
}

func appendOperation(b []byte, index int, op queue.Operation, r *queue.OperationResult, applied bool) []byte {
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(index), 10)
	if op.Push != nil {
		b = append(b, `,"type":"push","success":`...)
	} else {
		b = append(b, `,"type":"ack","success":`...)
	}
	b = strconv.AppendBool(b, applied)
	b = append(b, `,"transactionId":`...)
	switch {
	case op.Push == nil:
		b = appendString(b, op.Ack.TransactionID)
	case applied:
		b = appendString(b, r.Push.TransactionID)
	default:
		b = appendString(b, op.Push.TransactionID)
	}
	switch {
	case !applied && r.Error != "":
		b = append(b, `,"error":`...)
		b = appendString(b, r.Error)
	case !applied:
		b = append(b, `,"error":"`+notApplied+`"`...)
	case op.Push == nil:
		b = append(b, `,"error":null`...)
	}
	switch {
	case op.Push == nil:
		b = append(b, `,"dlq":`...)
		b = strconv.AppendBool(b, applied && r.Ack.DeadLettered)
	case applied:
		b = append(b, `,"messageId":`...)
		b = appendID(b, r.Push.MessageID)
		b = append(b, `,"partitionId":`...)
		b = appendID(b, r.Push.PartitionID)
		b = append(b, `,"queueName":`...)
		b = appendString(b, op.Push.Queue)
	}
	return append(b, '}')
}
