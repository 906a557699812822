package listen_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-mq/belfry/pkg/listen"
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
	t.Parallel()
	at := time.UnixMicro(1_724_000_000_000_001)
	for _, c := range []struct {
		name    string
		message listen.Message
		want    []string
	}{
		{"nothing", listen.Message{}, nil},
		{"canary", listen.Message{Canary: 7}, []string{";c=7"}},
		{"goodbye", listen.Message{Goodbye: true}, []string{";bye"}},
		{"ready now", listen.Message{Entries: []listen.Entry{listen.Ready(12, 345, time.Time{})}}, []string{";r=12/345@0"}},
		{
			"everything", listen.Message{Canary: math.MaxUint64, Goodbye: true, Entries: []listen.Entry{
				listen.Ready(12, 345, at), listen.All(), listen.Ready(1, 0, time.Time{}), listen.Born(), listen.Born(),
			}},
			[]string{";c=18446744073709551615;bye;born;all;r=12/345@1724000000000001,1/0@0"},
		},
		{"never early", listen.Message{Entries: []listen.Entry{listen.Ready(1, 2, at.Add(time.Nanosecond))}}, []string{";r=1/2@1724000000000002"}},
		{"long ago is now", listen.Message{Entries: []listen.Entry{listen.Ready(1, 2, time.Unix(-5, 0))}}, []string{";r=1/2@0"}},
		{
			"far away", listen.Message{Entries: []listen.Entry{listen.Ready(1, 2, time.Unix(math.MaxInt64/2, 0))}},
			[]string{";r=1/2@253402214400000000"},
		},
		{"what no decoder takes", listen.Message{Entries: []listen.Entry{listen.Ready(0, 1, at), listen.Ready(1, -1, at), {Kind: "odd"}}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
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
	t.Parallel()
	head := "1;i=" + someone
	for _, c := range []struct{ payload, want string }{
		{"", "version"},
		{"2;i=" + someone + ";all", "version"},
		{"1", "instance"},
		{"1;all", "instance"},
		{"1;i=me;all", "instance"},
		{"1;i=" + strings.ToUpper(someone) + ";all", "instance"},
		{head, "says nothing"},
		{head + ";", "unknown"},
		{head + ";all;", "unknown"},
		{head + ";all;all", "doubled"},
		{head + ";all;born", "out of order"},
		{head + ";all;x=1", `"x=1" is unknown`},
		{head + ";c=", "canary"},
		{head + ";c=0", "canary"},
		{head + ";c=07", "canary"},
		{head + ";c=+7", "canary"},
		{head + ";c=-7", "canary"},
		{head + ";c=18446744073709551616", "canary"},
		{head + ";r=", "group/partition@at"},
		{head + ";r=1", "group/partition@at"},
		{head + ";r=1/2", "group/partition@at"},
		{head + ";r=1@2", "group/partition@at"},
		{head + ";r=1/2@0,", "group/partition@at"},
		{head + ";r=0/2@0", "no group 0"},
		{head + ";r=01/2@0", "not a number"},
		{head + ";r=1/+2@0", "not a number"},
		{head + ";r=1/-2@0", "not a number"},
		{head + ";r=1/2@-1", "not a number"},
		{head + ";r=1/2@", "not a number"},
		{head + ";r=1/2@9223372036854775808", "not a number"},
		{head + ";r=1/2@253402214400000001", "9999"},
		{head + ";r=1/2@0" + strings.Repeat(",1/2@0", 2000), "the limit is 7899"},
	} {
		message, err := listen.Decode(c.payload)
		require.ErrorContains(t, err, c.want, "%.80q", c.payload)
		require.Zero(t, message, "%.80q", c.payload)
		require.Less(t, len(err.Error()), 400, "an error must not repeat a long payload")
	}
}

func TestDecodeTakesASenderThatIsNoInstance(t *testing.T) {
	t.Parallel()
	message, err := listen.Decode("1;i=00000000-0000-0000-0000-000000000000;r=12/345@0")
	require.NoError(t, err)
	require.Equal(t, listen.Message{Entries: []listen.Entry{listen.Ready(12, 345, time.Time{})}}, message)
}

func entry() *rapid.Generator[listen.Entry] {
	return rapid.Custom(func(t *rapid.T) listen.Entry {
		var at time.Time
		if rapid.Bool().Draw(t, "later") {
			at = time.UnixMicro(rapid.Int64Range(1, 253402214400000000).Draw(t, "at")).UTC()
		}
		return listen.Ready(rapid.Int64Range(1, math.MaxInt64).Draw(t, "group"), rapid.Int64Min(0).Draw(t, "partition"), at)
	})
}

func TestWhatIsEncodedIsDecoded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sent := listen.Message{
			Instance: id(t, someone), Canary: rapid.Uint64().Draw(t, "canary"), Goodbye: rapid.Bool().Draw(t, "goodbye"),
		}
		if rapid.Bool().Draw(t, "born") {
			sent.Entries = append(sent.Entries, listen.Born())
		}
		if rapid.Bool().Draw(t, "all") {
			sent.Entries = append(sent.Entries, listen.All())
		}
		sent.Entries = append(sent.Entries, rapid.SliceOfN(entry(), 0, 700).Draw(t, "entries")...)
		heard := listen.Message{Instance: sent.Instance}
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
			heard.Entries = append(heard.Entries, part.Entries...)
		}
		require.Equal(t, sent, heard)
	})
}

// FuzzDecode: no text makes the decoder panic, and what it takes is exactly what
// the encoder writes.
func FuzzDecode(f *testing.F) {
	f.Add("1;i=" + someone + ";c=7;bye;born;all;r=12/345@1724000000000001,1/0@0")
	f.Add("2;i=" + someone + ";all")
	f.Fuzz(func(t *testing.T, payload string) {
		message, err := listen.Decode(payload)
		if err != nil {
			require.Zero(t, message)
			return
		}
		require.Equal(t, []string{payload}, listen.Encode(message))
	})
}
