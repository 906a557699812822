package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/attach"
)

func TestAttachRefusesMistypedLines(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"attach":                       "accepts 1 arg(s)",
		"attach t":                     "--queue is missing",
		"attach t u --queue q":         "accepts 1 arg(s)",
		"attach t --queue q --onn x":   "unknown flag: --onn",
		"attach t --list":              "unknown command",
		"detach":                       "accepts 1 arg(s)",
		"attachments t":                "unknown command",
		"roles producer":               "unknown command",
		"attach t --queue q --print=x": "invalid argument",
	} {
		code, stdout, stderr := belfry(t, strings.Fields(line)...)
		require.Equal(t, 2, code, line)
		require.Contains(t, stderr, want, line)
		require.Empty(t, stdout, line)
	}
	for _, line := range []string{"attach t --queue q", "detach t", "attachments", "attach --list", "roles"} {
		code, _, stderr := belfry(t, append(strings.Fields(line), "--database-url", "")...)
		require.Equal(t, 1, code, line)
		require.Contains(t, stderr, "BELFRY_DATABASE_URL", line)
	}
}

func TestPayloadFlagIsAWordOrColumns(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"row": "row:", "changes": "changes:", "id": "row:id", "id,total": "row:id,total",
		"changes,id,total": "changes:id,total", "row,row": "row:row", "id,changes": "row:id,changes",
	} {
		payload, columns := parsePayload(strings.Split(line, ","))
		require.Equal(t, want, payload+":"+strings.Join(columns, ","), line)
		require.Equal(t, line, asTyped(payloadWords(payload, columns)))
	}
}

func TestAttachmentsPrint(t *testing.T) {
	t.Parallel()
	const want = `TABLE     QUEUE  ON             KEY  PAYLOAD    WHEN       STATE
public.t  q      insert,delete  a,b  row                   ok
public.u  q      insert              changes,c  new.c > 1  strict; 1 of 1 triggers missing or disabled: attach the table again; 2 failures, the last at 1970-01-01T00:00:00Z: it broke
public.v  q      insert              "a,b",c               100 or more failures, the last at 1970-01-01T00:00:01Z: again
`
	require.Equal(t, "Nothing is attached.\n", attachmentsText(nil))
	require.Equal(t, want, attachmentsText([]attach.Attachment{
		{Table: "public.t", Queue: "q", Events: []string{"insert", "delete"}, Key: []string{"a", "b"}, Payload: "row", Triggers: 2},
		{
			Table: "public.u", Queue: "q", Events: []string{"insert"}, Payload: "changes", Columns: []string{"c"}, Condition: "new.c > 1",
			Strict: true, Failures: 2, LastFailedAt: time.Unix(0, 0), LastFailure: "it broke",
		},
		{
			Table: "public.v", Queue: "q", Events: []string{"insert"}, Payload: "row", Columns: []string{"a,b", "c"}, Triggers: 1,
			Failures: attach.MaxFailures, LastFailedAt: time.Unix(1, 0), LastFailure: "again",
		},
	}))
}
