package data

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	kindPush = "push"
	kindAck  = "ack"
)

// transactionBody reads the body of a transaction.
type transactionBody struct {
	spelling
	tx queue.Transaction
	// unknownType is the first unknown operation type, or nil.
	unknownType *string
}

// parseTransaction reads and checks a body. It returns no error for an unknown operation
// type, because the answer reports such a transaction as not applied.
func (l Limits) parseTransaction(body []byte, names spelling) (*transactionBody, error) {
	read := &transactionBody{spelling: names}
	var isArray, hasOperations bool
	err := wire.Object(body, func(name string, value jsontext.Value) (err error) {
		switch name {
		case "operations":
			read.tx.Operations, read.unknownType, read.warnings, hasOperations = nil, nil, nil, false
			isArray, err = wire.Elements(value, func(at int, element jsontext.Value) error {
				hasOperations = true
				return read.operation("operations["+strconv.Itoa(at)+"]", element)
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
	case !hasOperations:
		return nil, queue.Invalidf("operations array cannot be empty")
	}
	if err := l.checkTransaction(read.tx.Operations); err != nil {
		return nil, err
	}
	return read, nil
}

// parseLeases reads requiredLeases. null counts as no leases. A null element counts as an
// empty lease id.
func parseLeases(value jsontext.Value) ([]string, error) {
	if value.Kind() == 'n' {
		return nil, nil
	}
	var leases []string
	isArray, err := wire.Elements(value, func(at int, element jsontext.Value) error {
		lease, ok := wire.Text(element)
		if !ok && element.Kind() != 'n' {
			return queue.Invalidf("requiredLeases[%d] must be a string, the leaseId of a pop", at)
		}
		if at >= queue.MaxOperations {
			return queue.Invalidf("requiredLeases has more than %d leases: send each lease only once", queue.MaxOperations)
		}
		leases = append(leases, lease)
		return nil
	})
	if err == nil && !isArray {
		err = queue.Invalidf("requiredLeases must be an array of the leaseIds of pops")
	}
	return leases, err
}

// operation reads one element of operations. path is its name in errors.
func (read *transactionBody) operation(path string, raw jsontext.Value) error {
	var kind string
	var hasKind, flat bool
	var items jsontext.Value
	isObject, err := wire.Members(raw, func(name string, value jsontext.Value) error {
		switch name {
		case "type":
			kind, hasKind = wire.Text(value)
		case "queue":
			flat = true // the operation itself is the item
		case "items":
			if items = value.Clone(); value.Kind() == 'n' {
				items = nil
			}
		default:
			flat = flat || nearMember(name) == "queue"
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
		return read.push(path, raw, inOperation)
	case kind == kindAck:
		return read.ack(path, raw)
	case read.unknownType == nil:
		read.unknownType = &kind
	}
	return nil
}

func (read *transactionBody) pushes(path string, items jsontext.Value) error {
	isArray, err := wire.Elements(items, func(at int, element jsontext.Value) error {
		return read.push(path+".items["+strconv.Itoa(at)+"]", element, inTransaction)
	})
	if err == nil && !isArray {
		err = queue.Invalidf("%s.items must be an array", path)
	}
	return err
}

func (read *transactionBody) push(path string, raw jsontext.Value, place itemPlace) error {
	item, err := read.item(len(read.tx.Operations), path, raw, place)
	if err != nil {
		return err
	}
	return read.add(queue.Operation{Push: &item})
}

func (read *transactionBody) ack(path string, raw jsontext.Value) error {
	item := newAckReader(path)
	_, err := wire.Members(raw, item.member)
	switch {
	case err != nil:
		return err
	case !item.hasTransaction:
		return queue.Invalidf("%s.transactionId must be a string", path)
	case !item.hasPartition:
		return queue.Invalidf("%s.partitionId must be a string: transaction ids are unique within a partition only", path)
	}
	if err := item.checkPause(); err != nil {
		return err
	}
	return read.add(queue.Operation{Ack: &item.AckItem})
}

func (read *transactionBody) add(op queue.Operation) error {
	if len(read.tx.Operations) == queue.MaxOperations {
		return queue.Invalidf("operations has more than %d operations (each pushed item counts as an operation): send several transactions", queue.MaxOperations)
	}
	read.tx.Operations = append(read.tx.Operations, op)
	return nil
}
