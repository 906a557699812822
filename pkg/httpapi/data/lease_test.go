package data_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/apitest"
)

const extendOne = "/api/v1/lease/01000000-0000-0000-0000-000000000001/extend"

func TestExtendAnswersAnObject(t *testing.T) {
	t.Parallel()
	until := time.Date(2026, 5, 16, 10, 41, 27, 123987654, time.FixedZone("", 7200))
	for body, want := range map[string]time.Duration{
		`{}`: time.Minute, `{"seconds":1}`: time.Second, `{"seconds":6e1}`: time.Minute, `{"seconds":null}`: time.Minute,
		`{"seconds":604800}`: 7 * 24 * time.Hour, `{"second":5}`: time.Minute,
	} {
		var asked []time.Duration
		f := &apitest.Fakes{Extend: func(lease queue.ID, d time.Duration) (time.Time, error) {
			require.Equal(t, apitest.IDOne, lease)
			asked = append(asked, d)
			return until, nil
		}}
		rec := apitest.Call(f, "POST", extendOne, body)
		require.Equal(t, 200, rec.Code)
		require.JSONEq(t, `{"leaseId":"`+apitest.IDOne.String()+`","success":true,"error":null,
			"expiresAt":"2026-05-16T08:41:27.123Z","newExpiresAt":"2026-05-16T08:41:27.123Z"}`, rec.Body.String())
		require.Equal(t, []time.Duration{want}, asked, body)
	}
}

func TestExtendReportsAnEndedLease(t *testing.T) {
	t.Parallel()
	for status, coded := range map[int]*queue.Error{
		404: {Code: queue.CodeNotFound, Message: "Lease not found"},
		409: {Code: queue.CodeLeaseGone, Message: "Lease already expired"},
	} {
		f := &apitest.Fakes{Extend: func(queue.ID, time.Duration) (time.Time, error) { return time.Time{}, coded }}
		rec := apitest.Call(f, "POST", extendOne, `{"seconds":5}`)
		require.Equal(t, status, rec.Code)
		require.JSONEq(t, `{"leaseId":"`+apitest.IDOne.String()+`","success":false,"error":"`+coded.Message+`",
			"expiresAt":null,"newExpiresAt":null}`, rec.Body.String())
	}
	// A text that is not a UUID cannot be the id of a lease. The handler does not call the store.
	rec := apitest.Call(&apitest.Fakes{}, "POST", "/api/v1/lease/mine/extend", `{}`)
	require.Equal(t, 404, rec.Code)
	require.JSONEq(t, `{"leaseId":"mine","success":false,"error":"Lease not found","expiresAt":null,"newExpiresAt":null}`, rec.Body.String())
}

func TestExtendRefusesInvalidSeconds(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"":                   "Empty request body",
		`{"seconds":0}`:      "seconds is 0: it must be between 1 and 604800",
		`{"seconds":-1}`:     "seconds is -1",
		`{"seconds":604801}`: "seconds is 604801",
		`{"seconds":"60"}`:   "seconds must be a whole number",
		`{"seconds":1.5}`:    "seconds must be a whole number",
	} {
		require.Contains(t, apitest.RequireError(t, apitest.Call(&apitest.Fakes{}, "POST", extendOne, body), 400), want)
	}
}

func TestFailedExtendIsAnError(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{Extend: func(queue.ID, time.Duration) (time.Time, error) { return time.Time{}, errors.New("secret") }}
	require.NotContains(t, apitest.RequireError(t, apitest.Call(f, "POST", extendOne, "{}"), 500), "secret")
}
