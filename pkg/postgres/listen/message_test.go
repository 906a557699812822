package listen_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-mq/belfry/pkg/postgres/listen"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const someone = "0190b5a6-0000-7000-8000-00000000000a"

func id(t interface{ Fatal(...any) }, text string) queue.ID {
	parsed, err := queue.ParseID(text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestEncodeWritesTheDocumentedText(t *testing.T) {
	at := time.UnixMicro(1_724_000_000_000_001)
	for _, c := range []struct {
		name    string
		message listen.Notification
		want    []string
	}{
		{"nothing", listen.Notification{}, nil},
		{"canary", listen.Notification{Canary: 7}, []string{";c=7"}},
		{"goodbye", listen.Notification{Goodbye: true}, []string{";bye"}},
		{"ready now", listen.Notification{Ready: []queue.Ready{listen.Ready(12, 345, time.Time{})}}, []string{";r=12/345@0"}},
		{
			"everything", listen.Notification{
				Canary: math.MaxUint64, Goodbye: true, CatalogChanged: true, Resync: true,
				Ready:      []queue.Ready{listen.Ready(12, 345, at), listen.Ready(1, 0, time.Time{}), listen.Ready(7, queue.Room, time.Time{})},
				Partitions: []listen.ReadyPartition{{Queue: 7, Partition: 345, At: at}, {Queue: 8, Partition: 1}},
			},
			[]string{";c=18446744073709551615;bye;born;all;r=12/345@1724000000000001,1/0@0,7/-1@0;p=7/345@1724000000000001,8/1@0"},
		},
		{"rounded up", listen.Notification{Ready: []queue.Ready{listen.Ready(1, 2, at.Add(time.Nanosecond))}}, []string{";r=1/2@1724000000000002"}},
		{"before 1970 is now", listen.Notification{Ready: []queue.Ready{listen.Ready(1, 2, time.Unix(-5, 0))}}, []string{";r=1/2@0"}},
		{
			"beyond the year 9999", listen.Notification{Ready: []queue.Ready{listen.Ready(1, 2, time.Unix(math.MaxInt64/2, 0))}},
			[]string{";r=1/2@253402214400000000"},
		},
		{"entries that cannot be decoded", listen.Notification{
			Ready: []queue.Ready{listen.Ready(0, 1, at), listen.Ready(1, -2, at)}, Partitions: []listen.ReadyPartition{{Queue: 0, Partition: 1}, {Queue: 1}},
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.message.Instance = id(t, someone)
			var want []string
			for _, tail := range c.want {
				want = append(want, "1;i="+someone+tail)
			}
			require.Equal(t, want, listen.Encode(c.message))
		})
	}
}

func TestDecodeRefusesWhatEncodeDoesNotWrite(t *testing.T) {
	const form = "not in the form that Encode writes"
	head := "1;i=" + someone
	for _, c := range []struct{ payload, want string }{
		{"", "version"},
		{"2;i=" + someone + ";all", "version"},
		{"1", form},
		{"1;all", form},
		{"1;i=me;all", `part "i=me"`},
		{"1;i=" + strings.ToUpper(someone) + ";all", form},
		{head, form},
		{head + ";", "unknown"},
		{head + ";all;", "unknown"},
		{head + ";all;all", form},
		{head + ";all;born", form},
		{head + ";all;x=1", `part "x=1": it is unknown`},
		{head + ";c=", `part "c="`},
		{head + ";c=0", form},
		{head + ";c=07", form},
		{head + ";c=+7", `part "c=+7"`},
		{head + ";c=-7", `part "c=-7"`},
		{head + ";c=18446744073709551616", "value out of range"},
		{head + ";r=", "id/partition@at"},
		{head + ";r=1", "id/partition@at"},
		{head + ";r=1/2", "id/partition@at"},
		{head + ";r=1@2", "id/partition@at"},
		{head + ";r=1/2@0,", "id/partition@at"},
		{head + ";r=0/2@0", form},
		{head + ";r=01/2@0", form},
		{head + ";r=1/+2@0", form},
		{head + ";r=1/-2@0", form},
		{head + ";r=1/2@-1", form},
		{head + ";r=1/2@", "invalid syntax"},
		{head + ";r=1/2@9223372036854775808", "value out of range"},
		{head + ";r=1/2@253402214400000001", form},
		{head + ";p=", "id/partition@at"},
		{head + ";p=1/2@0,", "id/partition@at"},
		{head + ";p=0/2@0", form},
		{head + ";p=1/0@0", form},
		{head + ";p=1/2@0;r=1/2@0", form},
		{head + ";r=1/2@0" + strings.Repeat(",1/2@0", 2000), "the limit is 7899"},
	} {
		message, err := listen.Decode(c.payload)
		require.ErrorContains(t, err, c.want, "%.80q", c.payload)
		require.Zero(t, message, "%.80q", c.payload)
		require.Less(t, len(err.Error()), 400, "an error must not repeat a long payload")
	}
}

func entry() *rapid.Generator[queue.Ready] {
	return rapid.Custom(func(t *rapid.T) queue.Ready {
		var at time.Time
		if rapid.Bool().Draw(t, "later") {
			at = time.UnixMicro(rapid.Int64Range(1, 253402214400000000).Draw(t, "at")).UTC()
		}
		return listen.Ready(rapid.Int64Range(1, math.MaxInt64).Draw(t, "group"), rapid.Int64Min(0).Draw(t, "partition"), at)
	})
}

func TestDecodeReadsWhatEncodeWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := listen.Notification{
			Instance: id(t, someone), Canary: rapid.Uint64().Draw(t, "canary"), Goodbye: rapid.Bool().Draw(t, "goodbye"),
			CatalogChanged: rapid.Bool().Draw(t, "born"), Resync: rapid.Bool().Draw(t, "all"),
		}
		sent.Ready = append(sent.Ready, rapid.SliceOfN(entry(), 0, 700).Draw(t, "entries")...)
		for _, e := range rapid.SliceOfN(entry(), 0, 700).Draw(t, "partitions") {
			sent.Partitions = append(sent.Partitions, listen.ReadyPartition{Queue: e.Group, Partition: max(1, e.Partition), At: e.At})
		}
		heard := listen.Notification{Instance: sent.Instance}
		for _, payload := range listen.Encode(sent) {
			if len(payload) >= 7900 {
				t.Fatalf("a payload of %d bytes", len(payload))
			}
			part, err := listen.Decode(payload)
			if err != nil {
				t.Fatal(err)
			}
			if part.Instance != sent.Instance {
				t.Fatalf("instance %s", part.Instance)
			}
			heard.Canary = max(heard.Canary, part.Canary)
			heard.Goodbye = heard.Goodbye || part.Goodbye
			heard.CatalogChanged, heard.Resync = heard.CatalogChanged || part.CatalogChanged, heard.Resync || part.Resync
			heard.Ready = append(heard.Ready, part.Ready...)
			heard.Partitions = append(heard.Partitions, part.Partitions...)
		}
		require.Equal(t, sent, heard)
	})
}

// FuzzDecode checks that no text makes the decoder panic, that the encoder writes exactly the payloads
// that the decoder accepts, and that errors are short.
func FuzzDecode(f *testing.F) {
	f.Add("1;i=" + someone + ";c=7;bye;born;all;r=12/345@1724000000000001,1/0@0")
	f.Add("1;i=" + someone + ";r=12/345@0;p=7/345@1724000000000001,8/1@0")
	f.Add("2;i=" + someone + ";all")
	for _, payload := range []string{"", ";", "1;", "1;i=", "garbage 7", `{"group":1}`, "1;r=" + strings.Repeat("9/9@9,", 2000), "1;i=" + someone + ";r=1/2@\xff"} {
		f.Add(payload)
	}
	f.Fuzz(func(t *testing.T, payload string) {
		message, err := listen.Decode(payload)
		if err != nil {
			require.Zero(t, message)
			require.Less(t, len(err.Error()), 1000, "the log must not repeat a long payload")
			return
		}
		require.Equal(t, []string{payload}, listen.Encode(message))
	})
}

// FuzzEncode checks that the payloads of every message are short enough and contain the
// whole message, without the entries that cannot be decoded.
func FuzzEncode(f *testing.F) {
	f.Add(uint64(7), true, true, true, int64(12), int64(345), int64(1_724_000_000), int64(1), uint16(1))
	f.Add(uint64(0), false, false, false, int64(0), int64(-1), int64(0), int64(0), uint16(2))
	f.Add(uint64(math.MaxUint64), true, false, true, int64(math.MaxInt64), int64(math.MaxInt64), int64(253402214399), int64(999_999_999), uint16(700))
	f.Add(uint64(1), false, true, false, int64(1), int64(0), int64(-1), int64(999_999_999), uint16(3))
	f.Fuzz(func(t *testing.T, canary uint64, goodbye, born, all bool, group, partition, seconds, nanoseconds int64, count uint16) {
		sent := listen.Notification{Instance: id(t, someone), Canary: canary, Goodbye: goodbye, CatalogChanged: born, Resync: all}
		var want []queue.Ready
		at := time.Unix(seconds%(1<<40), nanoseconds%1_000_000_000)
		for i := range int64(count % 2000) {
			e := listen.Ready(group-i, partition+i, at.Add(time.Duration(i)))
			sent.Ready = append(sent.Ready, e)
			if e.Group > 0 && e.Partition >= 0 {
				want = append(want, e)
			}
		}
		heard := listen.Notification{Instance: sent.Instance}
		for _, payload := range listen.Encode(sent) {
			require.Less(t, len(payload), 7900)
			part, err := listen.Decode(payload)
			require.NoError(t, err)
			require.Equal(t, sent.Instance, part.Instance)
			heard.Canary, heard.Goodbye = max(heard.Canary, part.Canary), heard.Goodbye || part.Goodbye
			heard.CatalogChanged, heard.Resync = heard.CatalogChanged || part.CatalogChanged, heard.Resync || part.Resync
			heard.Ready = append(heard.Ready, part.Ready...)
		}
		require.Equal(t, []any{canary, goodbye, born, all}, []any{heard.Canary, heard.Goodbye, heard.CatalogChanged, heard.Resync})
		require.Len(t, heard.Ready, len(want))
		for i, e := range heard.Ready {
			require.Equal(t, []any{want[i].Group, want[i].Partition}, []any{e.Group, e.Partition})
			requireInstant(t, want[i].At, e.At)
		}
	})
}

// requireInstant requires that heard is sent, rounded up to a microsecond. An instant before 1970 becomes zero. An instant after
// the year 9999 becomes the end of that year.
func requireInstant(t *testing.T, sent, heard time.Time) {
	t.Helper()
	last := time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	switch {
	case sent.IsZero() || !sent.After(time.Unix(0, 0)):
		require.Zero(t, heard)
	case sent.After(last):
		require.Equal(t, last, heard)
	default:
		late := heard.Sub(sent)
		require.True(t, 0 <= late && late < time.Microsecond, "%s became %s", sent, heard)
	}
}
