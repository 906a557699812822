package integration_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client/api"
)

// An operator finds a change in the audit, sees what an undo would do, and undoes it. A change that was replaced meanwhile is
// refused with the reason, in the preview too.
func TestAChangeIsUndoneOverHTTP(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	c.configure("q", map[string]any{"leaseTime": 77}).ok(http.StatusOK)
	for _, id := range []string{"m1", "m2", "m3"} {
		c.push(item{Queue: "q", Partition: "p", TransactionID: id, Payload: json.RawMessage("1")}).ok(http.StatusCreated)
	}
	c.configure("q", map[string]any{"leaseTime": 99}).ok(http.StatusOK)
	latest := func() auditEntry { return c.audit("limit=1").Entries[0] }
	changed := latest()
	require.True(t, changed.Undoable)
	path := "/api/v1/audit/" + changed.ID + "/undo"
	preview := ask[api.Undo](c, get(path)).ok(http.StatusOK)
	require.True(t, preview.DryRun)
	require.Equal(t, []api.UndoneValue{{Name: "leaseTime", Now: json.RawMessage("99"), Then: json.RawMessage("77")}}, preview.Values)
	require.Equal(t, changed.ID, latest().ID, "a preview has no entry")

	done := ask[api.Undo](c, post(path, "")).ok(http.StatusOK)
	require.Equal(t, preview.Values, done.Values)
	undo := latest()
	require.Equal(t, "queue.configure", undo.Action)
	require.JSONEq(t, `{"undoes":"`+changed.ID+`"}`, string(undo.Parameters))
	require.True(t, undo.Undoable, "an undo can be undone")
	entry := c.audit("limit=2").Entries[1]
	require.False(t, entry.Undoable)
	require.Equal(t, undo.ID, *entry.UndoneBy)
	for _, again := range []call{get(path), post(path, "")} {
		refused := ask[json.RawMessage](c.loose(), again)
		require.Equal(t, http.StatusConflict, refused.Status)
		require.Contains(t, string(refused.Raw), "undone already: the audit has the undo as "+undo.ID)
	}

	require.Len(t, c.popIDs("q", "consumerGroup=g&batch=1&autoAck=true"), 1)
	ask[json.RawMessage](c, post(groupsPath+"/g/queues/q/seek", `{"toEnd":true}`)).ok(http.StatusOK)
	sought := latest()
	places := ask[api.Undo](c, get("/api/v1/audit/"+sought.ID+"/undo")).ok(http.StatusOK).Places
	require.Equal(t, int64(2), places.MessagesDeliveredAgain)
	require.Equal(t, int64(1), places.PartitionsMovedBack)
	ask[json.RawMessage](c, post("/api/v1/audit/"+sought.ID+"/undo", "")).ok(http.StatusOK)
	require.Equal(t, "group.seek", latest().Action)
	require.Equal(t, []string{"m2", "m3"}, c.popIDs("q", "consumerGroup=g&batch=9"), "the skipped messages are delivered")

	ask[json.RawMessage](c, post("/api/v1/resources/queues/q/pause", `{"reason":"the bell cracked"}`)).ok(http.StatusOK)
	paused := latest()
	ask[json.RawMessage](c, post("/api/v1/resources/queues/q/resume", "")).ok(http.StatusOK)
	require.Contains(t, string(ask[json.RawMessage](c.loose(), get("/api/v1/audit/"+paused.ID+"/undo")).Raw), "it was resumed since")
	require.Equal(t, http.StatusBadRequest, ask[json.RawMessage](c.loose(), post("/api/v1/audit/7/undo", "")).Status)
	require.Equal(t, http.StatusNotFound, ask[json.RawMessage](c.loose(), post("/api/v1/audit/"+nobody+"/undo", "")).Status)
	require.Len(t, c.audit("").Entries, 7, "refused undos have no entry")
}

// nobody is an id that no object has.
const nobody = "0198f9a0-6f1c-7b52-8f6b-2f6c3a1d4e5f"
