package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Delivery is the answer of a pop, possibly without messages.
type Delivery struct {
	// LeaseID is the JSON text of a string.
	LeaseID  jsontext.Value
	Messages []Message

	Sent, At time.Time
}

// Message holds the fields that are verified or that an ack needs. A missing field is empty or
// 0; no message of ours has such values.
type Message struct {
	// TransactionID and PartitionID are the JSON text of a string.
	TransactionID, PartitionID jsontext.Value
	Partition                  string
	Data                       Payload
}

// Payload identifies a message; both numbers count from 1.
type Payload struct{ Lane, N int }

// ref returns the lane and the number of the message, from 0.
func (m *Message) ref() Ref { return Ref{m.Data.Lane - 1, m.Data.N - 1} }

// missing is the JSON text of an absent string.
var missing = jsontext.Value(`""`)

// popURL is the URL of a pop; wait 0 does not wait.
func (c *Client) popURL(p PopOptions, group string, wait time.Duration) *url.URL {
	query := url.Values{"batch": {strconv.Itoa(p.Batch)}, "autoAck": {strconv.FormatBool(p.AutoAck)}}
	if partitions := min(p.Batch, p.Partitions); partitions > 1 {
		query.Set("partitions", strconv.Itoa(partitions))
	}
	if group != "" {
		query.Set("consumerGroup", group)
	}
	if wait > 0 {
		query.Set("wait", "true")
		query.Set("timeout", strconv.FormatInt(wait.Milliseconds(), 10))
	}
	at := c.base.JoinPath("/api/v1/pop/queue/", p.Queue)
	at.RawQuery = query.Encode()
	return at
}

// popBuffer holds the answer of a pop and its delivery until the next pop. The benchmark shares
// its cores with the server, so it does not allocate strings for each message.
type popBuffer struct {
	body     bytes.Buffer
	delivery Delivery

	decoder *jsontext.Decoder
	// ids are the JSON strings of the delivery.
	ids []byte
	// partition is the last decoded name and quoted its JSON text: most messages of a pop have
	// the same partition.
	partition string
	quoted    []byte
}

// pop sends a pop. The delivery is valid until the next pop with the same buffer.
func (c *Client) pop(ctx context.Context, at *url.URL, into *popBuffer) (*Delivery, error) {
	d := &into.delivery
	*d = Delivery{LeaseID: missing, Messages: d.Messages[:0]}
	resp, err := c.Do(ctx, Request{Method: http.MethodGet, URL: at}, &into.body)
	d.Sent, d.At = resp.Sent, resp.At
	if err != nil || resp.Status == http.StatusNoContent || into.body.Len() == 0 {
		return d, err
	}
	if err := into.decode(); err != nil {
		return d, unreadable("decoding the answer of a pop: %w", err)
	}
	return d, nil
}

// decode decodes the body. A duplicate name is no error.
func (b *popBuffer) decode() error {
	d := &b.delivery
	b.ids = b.ids[:0]
	if b.decoder == nil {
		b.decoder = &jsontext.Decoder{}
	}
	b.decoder.Reset(&b.body, jsontext.AllowDuplicateNames(true))
	err := b.object(func(name []byte) (err error) {
		switch string(name) {
		case `"leaseId"`:
			d.LeaseID, err = b.id()
		case `"messages"`:
			d.Messages = d.Messages[:0]
			err = b.list('[', ']', b.message)
		default:
			err = b.decoder.SkipValue()
		}
		return err
	})
	if err != nil {
		return err
	}
	if _, err := b.decoder.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.Join(errors.New("there is more text after the answer"), err)
	}
	return nil
}

// message decodes one more message.
func (b *popBuffer) message() error {
	b.delivery.Messages = append(b.delivery.Messages, Message{TransactionID: missing, PartitionID: missing})
	m := &b.delivery.Messages[len(b.delivery.Messages)-1]
	return b.object(func(name []byte) (err error) {
		switch string(name) {
		case `"transactionId"`:
			m.TransactionID, err = b.id()
		case `"partitionId"`:
			m.PartitionID, err = b.id()
		case `"partition"`:
			m.Partition, err = b.name()
		case `"data"`:
			err = b.object(func(name []byte) (err error) {
				switch string(name) {
				case `"lane"`:
					m.Data.Lane, err = b.int()
				case `"n"`:
					m.Data.N, err = b.int()
				default:
					err = b.decoder.SkipValue()
				}
				return err
			})
		default:
			err = b.decoder.SkipValue()
		}
		return err
	})
}

// object calls member with the JSON text of each name; member decodes the value. null has no
// members.
func (b *popBuffer) object(member func(name []byte) error) error {
	return b.list('{', '}', func() error {
		name, err := b.decoder.ReadValue()
		if err != nil {
			return err
		}
		return member(name)
	})
}

// list calls item for each item of an object or an array; item decodes it. null has no items.
func (b *popBuffer) list(begin, end jsontext.Kind, item func() error) error {
	token, err := b.decoder.ReadToken()
	if err != nil || token.Kind() == 'n' {
		return err
	}
	if token.Kind() != begin {
		return fmt.Errorf("there is no %v at byte %d", begin, b.decoder.InputOffset())
	}
	for b.decoder.PeekKind() != end {
		if err := item(); err != nil {
			return err
		}
	}
	_, err = b.decoder.ReadToken()
	return err
}

// string returns the JSON text of a string, valid until the next read. null is an empty string.
func (b *popBuffer) string() (jsontext.Value, error) {
	value, err := b.decoder.ReadValue()
	switch {
	case err != nil:
		return nil, err
	case value.Kind() == 'n':
		return missing, nil
	case value.Kind() != '"':
		return nil, fmt.Errorf("there is no string before byte %d", b.decoder.InputOffset())
	}
	return value, nil
}

// id returns the JSON text of a string, valid as long as the delivery.
func (b *popBuffer) id() (jsontext.Value, error) {
	value, err := b.string()
	n := len(b.ids)
	b.ids = append(b.ids, value...)
	return b.ids[n:len(b.ids):len(b.ids)], err
}

// name decodes a string.
func (b *popBuffer) name() (string, error) {
	value, err := b.string()
	if err != nil {
		return "", err
	}
	if bytes.Equal(value, b.quoted) {
		return b.partition, nil
	}
	text, err := jsontext.AppendUnquote(nil, value)
	b.partition, b.quoted = string(text), append(b.quoted[:0], value...)
	return b.partition, err
}

// int decodes a whole number; null is 0.
func (b *popBuffer) int() (int, error) {
	value, err := b.decoder.ReadValue()
	if err != nil || value.Kind() == 'n' {
		return 0, err
	}
	return strconv.Atoi(string(value))
}
