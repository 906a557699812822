package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// delivery is the answer of a pop; no messages when there were none.
type delivery struct {
	// LeaseID is a JSON string as it came.
	LeaseID  jsontext.Value
	Messages []message

	sent, at time.Time
}

// message is what is verified of a message, and what its ack needs. What did not
// come is empty or 0, which is no message of ours.
type message struct {
	// TransactionID and PartitionID are JSON strings as they came.
	TransactionID, PartitionID jsontext.Value
	Partition                  string
	Data                       number
}

type number struct{ Lane, N int }

// missing is a JSON string that did not come.
var missing = jsontext.Value(`""`)

// inbound holds the answer of a pop. The next one takes its place, and that of
// its delivery: the bench shares its cores with the server, and a pop of 100
// messages would make a hundred strings that nobody keeps.
type inbound struct {
	body     bytes.Buffer
	delivery delivery

	text *jsontext.Decoder
	// ids are the JSON strings of the delivery.
	ids []byte
	// partition is the last one, and how it came: most messages have the same.
	partition string
	quoted    []byte
}

// decode reads the answer in body. A name that comes twice is no error.
func (in *inbound) decode() error {
	d := &in.delivery
	in.ids = in.ids[:0]
	if in.text == nil {
		in.text = &jsontext.Decoder{}
	}
	in.text.Reset(&in.body, jsontext.AllowDuplicateNames(true))
	err := in.object(func(name []byte) (err error) {
		switch string(name) {
		case `"leaseId"`:
			d.LeaseID, err = in.id()
		case `"messages"`:
			d.Messages = d.Messages[:0]
			err = in.list('[', ']', in.message)
		default:
			err = in.text.SkipValue()
		}
		return err
	})
	if err != nil {
		return err
	}
	if _, err := in.text.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.Join(errors.New("something comes after the answer"), err)
	}
	return nil
}

// message reads one more message.
func (in *inbound) message() error {
	in.delivery.Messages = append(in.delivery.Messages, message{TransactionID: missing, PartitionID: missing})
	m := &in.delivery.Messages[len(in.delivery.Messages)-1]
	return in.object(func(name []byte) (err error) {
		switch string(name) {
		case `"transactionId"`:
			m.TransactionID, err = in.id()
		case `"partitionId"`:
			m.PartitionID, err = in.id()
		case `"partition"`:
			m.Partition, err = in.name()
		case `"data"`:
			err = in.object(func(name []byte) (err error) {
				switch string(name) {
				case `"lane"`:
					m.Data.Lane, err = in.int()
				case `"n"`:
					m.Data.N, err = in.int()
				default:
					err = in.text.SkipValue()
				}
				return err
			})
		default:
			err = in.text.SkipValue()
		}
		return err
	})
}

// object calls member with each name, a JSON string as it came; member reads the value. null
// has none.
func (in *inbound) object(member func(name []byte) error) error {
	return in.list('{', '}', func() error {
		name, err := in.text.ReadValue()
		if err != nil {
			return err
		}
		return member(name)
	})
}

// list calls item for each item of an object or an array; item reads it. null has
// none.
func (in *inbound) list(begin, end jsontext.Kind, item func() error) error {
	token, err := in.text.ReadToken()
	if err != nil || token.Kind() == 'n' {
		return err
	}
	if token.Kind() != begin {
		return fmt.Errorf("there is no %v at byte %d", begin, in.text.InputOffset())
	}
	for in.text.PeekKind() != end {
		if err := item(); err != nil {
			return err
		}
	}
	_, err = in.text.ReadToken()
	return err
}

// string reads a JSON string; null is an empty one. It is good until more is read.
func (in *inbound) string() (jsontext.Value, error) {
	value, err := in.text.ReadValue()
	switch {
	case err != nil:
		return nil, err
	case value.Kind() == 'n':
		return missing, nil
	case value.Kind() != '"':
		return nil, fmt.Errorf("there is no string before byte %d", in.text.InputOffset())
	}
	return value, nil
}

// id reads a JSON string that is good as long as the delivery.
func (in *inbound) id() (jsontext.Value, error) {
	value, err := in.string()
	n := len(in.ids)
	in.ids = append(in.ids, value...)
	return in.ids[n:len(in.ids):len(in.ids)], err
}

// name reads what a string says.
func (in *inbound) name() (string, error) {
	value, err := in.string()
	if err != nil {
		return "", err
	}
	if bytes.Equal(value, in.quoted) {
		return in.partition, nil
	}
	text, err := jsontext.AppendUnquote(nil, value)
	in.partition, in.quoted = string(text), append(in.quoted[:0], value...)
	return in.partition, err
}

// int reads a whole number; null is 0.
func (in *inbound) int() (int, error) {
	value, err := in.text.ReadValue()
	if err != nil || value.Kind() == 'n' {
		return 0, err
	}
	return strconv.Atoi(string(value))
}
