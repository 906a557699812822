package data

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// cycleBody reads the body of a cycle.
type cycleBody struct {
	spelling
	query, partition, group string
	keepLease               bool
	items                   []queue.PushItem
	ack                     *queue.AckItem
	// count is the number of messages that the client acknowledges. Only the answer and the metrics use it.
	count   int64
	changes []queue.StateChange
}

// Cycle serves POST /streams/v1/cycle. One transaction changes the state, pushes and acknowledges. If
// the cycle was not applied, the answer is a 200 with success false.
func (h *Handlers) Cycle(c echo.Context) error {
	body, err := h.Bodies.Read(c)
	if err != nil {
		return err
	}
	read := &cycleBody{spelling: spellingOf(c), group: queue.DefaultGroup}
	if err := h.Limits.parseCycle(body, read); err != nil {
		return err
	}
	ctx := c.Request().Context()
	result := queue.TransactionResult{Error: queue.UnknownQuery(read.query).Message}
	query, allowed, err := h.findQuery(ctx, read.query, read.partition)
	tx := read.transaction(query)
	if err == nil && allowed {
		result, err = h.transact(ctx, tx)
	}
	if err != nil {
		return err
	}
	if result.Applied {
		h.countCycle(read, tx, &result)
	}
	if result.Stale && read.ack != nil && read.ack.LeaseID != "" {
		// This ack makes the messages deliverable at once, so the client can repeat the cycle with the current state. If
		// the ack fails, the messages are delivered again when the lease expires.
		again := *read.ack
		again.Status = queue.AckRetry
		_, _ = h.Verbs.Ack(ctx, []queue.AckItem{again})
	}
	return wire.Answer(c, http.StatusOK, read.answer(&result))
}

// transaction returns the operations of the cycle: first the pushes, then the ack.
func (read *cycleBody) transaction(query queue.ID) *queue.Transaction {
	tx := &queue.Transaction{Cycle: &queue.Cycle{
		Query: query, Partition: read.partition, Changes: read.changes, ReleaseLease: !read.keepLease,
	}}
	for i := range read.items {
		tx.Operations = append(tx.Operations, queue.Operation{Push: &read.items[i]})
	}
	if read.ack != nil {
		tx.Operations = append(tx.Operations, queue.Operation{Ack: read.ack})
	}
	return tx
}

// countCycle counts an applied cycle in the metrics. Its ack counts as read.count messages.
func (h *Handlers) countCycle(read *cycleBody, tx *queue.Transaction, result *queue.TransactionResult) {
	h.Meter.Transacted(tx, result)
	if more := int(min(read.count, queue.MaxOperations)) - 1; read.ack != nil && more > 0 {
		acked := *result.Operations[len(result.Operations)-1].Ack
		h.Meter.Acknowledged(slices.Repeat([]queue.AckItem{*read.ack}, more), slices.Repeat([]queue.AckResult{acked}, more))
	}
}

func (read *cycleBody) answer(result *queue.TransactionResult) []byte {
	b := wire.AppendBool(make([]byte, 0, 512+256*len(read.items)), `{"success":`, result.Applied)
	b = wire.AppendString(b, `,"query_id":`, read.query)
	b = wire.AppendString(b, `,"partition_id":`, read.partition)
	if !result.Applied {
		return append(wire.AppendString(b, `,"error":`, result.Error), '}')
	}
	b = wire.AppendStringOrNull(b, `,"queueName":`, result.Queue)
	b = wire.AppendInt(b, `,"state_ops_applied":`, len(read.changes))
	b = append(b, `,"push_results":[`...)
	for i := range read.items {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendPushResult(b, i, &read.items[i], result.Operations[i].Push, read.warnings[i])
	}
	b = append(b, `],"ack_result":`...)
	if read.ack == nil {
		return append(b, "null}"...)
	}
	b = append(b, `{"success":true,"count":`...)
	b = strconv.AppendInt(b, read.count, 10)
	acked := result.Operations[len(result.Operations)-1].Ack
	b = wire.AppendBool(b, `,"lease_released":`, acked.LeaseReleased)
	b = wire.AppendBool(b, `,"dlq":`, acked.DeadLettered)
	return append(b, "}}"...)
}

// parseCycle reads and checks a body.
func (l Limits) parseCycle(body []byte, read *cycleBody) error {
	var lists [2]jsontext.Value
	var ack jsontext.Value
	err := wire.Object(body, func(name string, value jsontext.Value) (err error) {
		if value.Kind() == 'n' {
			return nil
		}
		switch name {
		case "query_id":
			read.query, err = streamText(name, value)
		case "partition_id":
			read.partition, err = streamText(name, value)
		case "consumer_group":
			read.group, err = streamText(name, value)
		case "release_lease":
			var release bool
			release, err = wire.Bool(name, value)
			read.keepLease = !release
		case "state_ops":
			lists[0] = value.Clone()
		case "push_items":
			lists[1] = value.Clone()
		case "ack":
			ack = value.Clone()
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case read.query == "":
		return queue.Invalidf("query_id is required")
	case read.partition == "":
		return queue.Invalidf("partition_id is required")
	case read.group == "":
		read.group = queue.DefaultGroup
	}
	if err := read.lists(lists); err != nil {
		return err
	}
	if err := l.checkItems(len(read.items)); err != nil {
		return err
	}
	if err := l.checkPartitions(read.items); err != nil {
		return err
	}
	return read.acknowledgment(ack)
}

// lists reads state_ops and push_items. A nil list was not sent.
func (read *cycleBody) lists(lists [2]jsontext.Value) error {
	for i, into := range []func(path string, raw jsontext.Value) error{read.stateOp, read.pushItem} {
		field := []string{"state_ops", "push_items"}[i]
		if lists[i] == nil {
			continue
		}
		isArray, err := wire.Elements(lists[i], func(at int, element jsontext.Value) error {
			if at >= queue.MaxOperations {
				return queue.Invalidf("%s has more than %d elements: send several cycles", field, queue.MaxOperations)
			}
			return into(field+"["+strconv.Itoa(at)+"]", element)
		})
		if err == nil && !isArray {
			err = queue.Invalidf("%s must be an array", field)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// stateOp reads one change of the state.
func (read *cycleBody) stateOp(path string, raw jsontext.Value) error {
	var kind string
	var hasKey bool
	change := queue.StateChange{Value: []byte("null")}
	isObject, err := wire.Members(raw, func(name string, value jsontext.Value) (err error) {
		switch name {
		case "type":
			kind, _ = wire.Text(value)
		case "key":
			change.Key, err = stateKey(path+".key", value)
			hasKey = true
		case "value":
			change.Value, change.WindowEnd = []byte(value.Clone()), windowEnd(value)
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case !isObject:
		return queue.Invalidf("%s must be an object", path)
	case kind != "upsert" && kind != "delete":
		return queue.Invalidf("%s.type must be upsert or delete", path)
	case !hasKey:
		return queue.Invalidf("%s.key is required", path)
	case kind == "delete":
		change.Value, change.WindowEnd = nil, nil
	}
	read.changes = append(read.changes, change)
	return nil
}

// stateKey reads a key of the state.
func stateKey(field string, value jsontext.Value) (string, error) {
	key, ok := wire.Text(value)
	switch {
	case !ok:
		return "", queue.Invalidf("%s must be a string, not %s", field, wire.Clip(string(value)))
	case len(key) > queue.MaxStateKeyBytes:
		return "", queue.Invalidf("%s is %d bytes long: at most %d are allowed", field, len(key), queue.MaxStateKeyBytes)
	}
	return wire.ReplaceNUL(key), nil
}

// windowEnd returns the member windowEnd of a value, if it is a number.
func windowEnd(value jsontext.Value) (end *float64) {
	_, err := wire.Members(value, func(name string, member jsontext.Value) error {
		if name == "windowEnd" {
			end = number(member)
		}
		return nil
	})
	if err != nil {
		return nil // unreachable, because the JSON of the body is valid
	}
	return end
}

// number returns a JSON number, or nil.
func number(value jsontext.Value) *float64 {
	if value.Kind() != '0' {
		return nil
	}
	f, err := strconv.ParseFloat(string(value), 64)
	if err != nil {
		return nil
	}
	return &f
}

func (read *cycleBody) pushItem(path string, raw jsontext.Value) error {
	item, err := read.item(len(read.items), path, raw, inTransaction)
	read.items = append(read.items, item)
	return err
}

// acknowledgment reads the member ack. The status failed makes the message a dead letter, as in Queen MQ.
func (read *cycleBody) acknowledgment(raw jsontext.Value) error {
	if raw == nil {
		return nil
	}
	reader := newAckReader("ack")
	read.count = 1
	isObject, err := wire.Members(raw, func(name string, value jsontext.Value) (err error) {
		if name == "count" && value.Kind() != 'n' {
			read.count, err = wire.WholeNumber("ack.count", value)
			return err
		}
		return reader.member(name, value)
	})
	switch {
	case err != nil:
		return err
	case !isObject:
		return queue.Invalidf("ack must be an object or null")
	case !reader.hasTransaction:
		return queue.Invalidf("ack.transactionId is required")
	case reader.RetryAfter != nil, reader.PauseGroup != 0:
		return queue.Invalidf("ack.retryAfter and ack.pauseGroup have no effect in a cycle: remove them")
	}
	read.ack = &reader.AckItem
	read.ack.PartitionID, read.ack.Group = read.partition, wire.ReplaceNUL(read.group)
	switch read.ack.Status {
	case queue.AckFailed:
		read.ack.Status = queue.AckDead
	case queue.AckRetry:
		read.ack.Status = queue.AckUnknown
	default:
	}
	return nil
}
