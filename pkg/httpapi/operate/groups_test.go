package operate_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/apitest"
)

const groupsPath = "/api/v1/consumer-groups"

func TestGroupIsDeleted(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]apitest.GroupCall{
		"/g":                                   {Verb: "delete", Group: "g"},
		"/g?deleteMetadata=true":               {Verb: "delete", Group: "g"},
		"/g?deleteMetadata=1":                  {Verb: "delete", Group: "g"},
		"/g?deleteMetadata=false":              {Verb: "delete", Group: "g", Keep: true},
		"/g/queues/q%2Fr":                      {Verb: "delete of queue", Group: "g", Queue: "q/r"},
		"/g/queues/q%2Fr?deleteMetadata=false": {Verb: "delete of queue", Group: "g", Queue: "q/r", Keep: true},
	} {
		f := &apitest.Fakes{}
		body := `{"success":true,"consumerGroup":"g","deletedPartitions":7,"metadataDeleted":true}`
		if want.Keep {
			body = `{"success":true,"consumerGroup":"g","deletedPartitions":7,"metadataDeleted":false}`
		}
		if want.Queue != "" {
			body = body[:len(body)-1] + `,"queueName":"q/r"}`
		}
		apitest.RequireAnswer(t, f, apitest.Request("DELETE", groupsPath+target, ""), 200, body)
		require.Equal(t, []apitest.GroupCall{want}, f.GroupCalls, target)
	}
}

func TestSeekReadsBodyAndQuery(t *testing.T) {
	t.Parallel()
	at := func(text string) catalog.Position {
		instant, err := wire.Timestamp("timestamp", text, "")
		require.NoError(t, err)
		return catalog.Position{After: instant}
	}
	const path = groupsPath + "/g/queues/q/seek"
	for _, c := range []struct {
		query, body string
		want        catalog.Position
		flags       string
	}{
		{"", `{"toEnd":true}`, catalog.Position{End: true}, `"seekToEnd":true,"seekToBeginning":false,"targetTimestamp":null`},
		{"?toEnd=true", ``, catalog.Position{End: true}, `"seekToEnd":true,"seekToBeginning":false,"targetTimestamp":null`},
		{"", `{"toBeginning":true,"toEnd":false,"timestamp":null}`, catalog.Position{}, `"seekToEnd":false,"seekToBeginning":true,"targetTimestamp":null`},
		{"?toBeginning=1", `{}`, catalog.Position{}, `"seekToEnd":false,"seekToBeginning":true,"targetTimestamp":null`},
		{"", `{"toEnd":false,"timestamp":"2026-05-16"}`, at("2026-05-16"), `"seekToEnd":false,"seekToBeginning":false,"targetTimestamp":"2026-05-16T00:00:00.000Z"`},
		{"", `{"timestamp":"0001-01-01"}`, at("0001-01-01"), `"seekToEnd":false,"seekToBeginning":false,"targetTimestamp":"0001-01-01T00:00:00.000Z"`},
		{"?timestamp=2026-05-16T00:00:00Z", ``, at("2026-05-16"), `"seekToEnd":false,"seekToBeginning":false,"targetTimestamp":"2026-05-16T00:00:00.000Z"`},
	} {
		f := &apitest.Fakes{}
		apitest.RequireAnswer(t, f, apitest.Request("POST", path+c.query, c.body), 200,
			`{"success":true,"consumerGroup":"g","queueName":"q",`+c.flags+`,"partitionsUpdated":3}`)
		require.Equal(t, []apitest.GroupCall{{Verb: "seek", Group: "g", Queue: "q", Place: c.want}}, f.GroupCalls)
	}
	for body, want := range map[string]string{
		``:                                     "Must specify either 'toEnd': true or 'timestamp', or 'toBeginning': true",
		`{}`:                                   "Must specify either 'toEnd': true or 'timestamp', or 'toBeginning': true",
		`{"toEnd":false}`:                      "Must specify either 'toEnd': true or 'timestamp', or 'toBeginning': true",
		`{"toEnd":1}`:                          "toEnd must be true or false, not 1",
		`{"timestamp":17}`:                     `timestamp must be a timestamp like "2026-05-16T08:41:27.123Z", not 17`,
		`{"timestamp":"0000-12-31T23:59:59Z"}`: `timestamp is "0000-12-31T23:59:59Z": it must be a timestamp like`,
		`{"timestamp":"9999-12-31T23:59:59-01:00"}`: `timestamp is "9999-12-31T23:59:59-01:00": it must be a timestamp like`,
		`{"timestamp":"soon"}`:                      `timestamp is "soon": it must be a timestamp like`,
		`{"toEnd":true,"toBeginning":tr`:            "Invalid JSON",
		`{"toEnd":true,"timestamp":"20"}`:           `timestamp is "20"`,
		`{"toEnd":true,"timestamp":"2026-05-16"}`:   "toEnd, toBeginning and timestamp exclude each other",
		`{"toEnd":true,"toBeginning":true}`:         "toEnd, toBeginning and timestamp exclude each other",
	} {
		f := &apitest.Fakes{}
		require.Contains(t, apitest.RequireError(t, apitest.Call(f, "POST", path, body), 400), want, body)
		require.False(t, f.Reached())
	}
	require.Contains(t, apitest.RequireError(t, apitest.Call(&apitest.Fakes{}, "POST", path+"?timestamp=soon", ""), 400), `timestamp is "soon"`)
}

func TestSeekOfAPartitionMovesToTheEndByDefault(t *testing.T) {
	t.Parallel()
	const path = groupsPath + "/g/queues/q/partitions/a%2Fb/seek"
	for body, want := range map[string]catalog.Position{``: {End: true}, `{}`: {End: true}, `{"toBeginning":true}`: {}} {
		f := &apitest.Fakes{}
		apitest.RequireAnswer(t, f, apitest.Request("POST", path, body), 200, `{"success":true,"consumerGroup":"g","queueName":"q","partitionName":"a/b",
			"updated":true,"cursorMovedTo":"2026-05-16T08:41:27.123Z"}`)
		require.Equal(t, []apitest.GroupCall{{Verb: "seek partition", Group: "g", Queue: "q", Partition: "a/b", Place: want}}, f.GroupCalls)
	}
	f := &apitest.Fakes{Seek: func(apitest.GroupCall) (catalog.PartitionSeek, int64, error) {
		return catalog.PartitionSeek{}, 0, nil
	}}
	apitest.RequireAnswer(t, f, apitest.Request("POST", path, ""), 200,
		`{"success":true,"consumerGroup":"g","queueName":"q","partitionName":"a/b","updated":false,"cursorMovedTo":null}`)
	f = &apitest.Fakes{Seek: func(apitest.GroupCall) (catalog.PartitionSeek, int64, error) {
		return catalog.PartitionSeek{}, 0, &queue.Error{Code: queue.CodeNotFound, Message: "Partition not found"}
	}}
	apitest.RequireAnswer(t, f, apitest.Request("POST", path, ""), 404, `{"success":false,"error":"Partition not found"}`)
	require.Contains(t, apitest.RequireError(t, apitest.Call(&apitest.Fakes{}, "POST", path, `{"toEnd":"yes"}`), 400), `toEnd must be true or false, not "yes"`)
}
