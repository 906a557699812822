package httpapi

import (
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// textQuery reads a parameter that is compared with a name; an absent one is "".
func textQuery(c echo.Context, param string) (string, error) {
	value := c.QueryParam(param)
	if !validText(value) {
		return "", queue.Invalidf("%s is not UTF-8", param)
	}
	return value, checkName(param, value)
}

// nameQuery is textQuery for a name that may be empty: absent is nil. Clients
// send an empty parameter for one that is not set, so that is absent too.
func nameQuery(c echo.Context, param string) (*string, error) {
	value, err := textQuery(c, param)
	if err != nil || value == "" {
		return nil, err
	}
	return &value, nil
}

// instantQuery reads an instant; an absent one is the zero time.
func instantQuery(c echo.Context, param string) (time.Time, error) {
	return instantOf(param, c.QueryParam(param))
}

func instantOf(name, value string) (time.Time, error) {
	if value == "" {
		return time.Time{}, nil
	}
	at, ok := parseInstant(value)
	if !ok {
		return time.Time{}, queue.Invalidf("%s is %q: it must be an instant such as 2026-05-16T08:41:27.123Z", name, clip(value))
	}
	return at, nil
}

// messageNotFound is the contract's text.
const messageNotFound = "Message not found"

// messagePath reads the partition and the transaction of a message in a path. A
// partition that is no UUID names no message.
func messagePath(c echo.Context) (partition queue.ID, partitionText, transaction string, err error) {
	if partitionText, err = pathName(c, "partitionId"); err != nil {
		return partition, "", "", err
	}
	// A transaction id has 255 characters at most, which may be more bytes.
	if transaction, err = pathText(c, "transactionId"); err != nil {
		return partition, "", "", err
	}
	if partition, err = queue.ParseID(partitionText); err != nil {
		err = &queue.Error{Code: queue.CodeNotFound, Message: messageNotFound}
	}
	return partition, partitionText, transaction, err
}

// pathText is pathName for what may be longer than a name.
func pathText(c echo.Context, param string) (string, error) {
	text, err := unescaped(c, param)
	switch {
	case err != nil:
		return "", err
	case strings.ContainsRune(text, 0):
		return "", queue.Invalidf("the %s in the path contains a NUL character: remove it", param)
	}
	return text, nil
}
