package listen

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// Every role can notify. These forged notifications do not hide the death of an instance: heartbeats in the name of 2,048
// instances, goodbyes in the name of a live instance, and repetitions of the payloads of this instance after its death.
func TestForgedNotificationsDoNotHideADeath(t *testing.T) {
	t.Parallel()
	r, w, resyncs := newParts(t)
	w.current = r.current
	var left []queue.ID
	r.callbacks.OnPeerLeft = func(id queue.ID) { left = append(left, id) }
	for range 2 * maxPeers {
		r.handle(Encode(Notification{Instance: queue.NewID(), Canary: 1})[0])
	}
	require.Zero(t, r.Peers())
	peer := queue.NewID()
	began := time.Now()
	var sent []string
	for n := range uint64(3) {
		sent = append(sent, r.sender.key.sign(Encode(Notification{Instance: peer, Canary: n + 1})[0], n+1))
		r.handle(sent[n])
		r.handle(Encode(Notification{Instance: peer, Goodbye: true})[0])
		require.Equal(t, []queue.ID{peer}, r.PeerIDs())
	}
	require.Empty(t, left)
	for range maxLastNumbers {
		r.hear(Notification{Instance: queue.NewID(), Goodbye: true}) // instances that have ended
	}
	left = nil
	r.peers.due[peer] = began
	for _, again := range sent {
		r.handle(again)
	}
	w.expirePeers(began)
	require.Equal(t, []queue.ID{peer}, left)
	require.Len(t, *resyncs, 1)
	require.LessOrEqual(t, len(r.lastNumber), maxLastNumbers)
}

// A payload of SendLive is accepted once, and only with the right key.
func TestLivePayloadsAreEncrypted(t *testing.T) {
	t.Parallel()
	r, _, _ := newParts(t)
	var heard []string
	r.callbacks.OnLive = func(payload string) { heard = append(heard, payload) }
	long := strings.Repeat("secret", MaxLive/6)
	sealed := r.sender.key.seal(long, queue.NewID(), 1)
	require.LessOrEqual(t, len(sealed), maxPayload)
	require.NotContains(t, sealed, "secret")
	other := channelKey{}
	for _, payload := range []string{sealed, sealed, sealed[1:], "", "AAAA", long, other.seal("x", queue.NewID(), 1), (&channelKey{}).seal("x", queue.NewID(), 1)} {
		r.handleLive(payload)
	}
	require.Equal(t, []string{long}, heard)
	require.EqualValues(t, 7, r.Unreadable())
}

// A connected sender uses a new key of the database, so that other instances accept its notifications.
func TestASenderUsesANewKey(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	s, err := NewSender(dsn, queue.NewID(), DefaultConfig(), nil, nil)
	require.NoError(t, err)
	require.NoError(t, s.exec(t.Context(), Channel, []string{"one"}))
	defer func() { s.conn.close(t.Context()) }()
	before := s.key.sign("x", 1)
	_, err = s.conn.Exec(t.Context(), `UPDATE belfry.channel_key SET key = 'another'`)
	require.NoError(t, err)
	require.Equal(t, before, s.key.sign("x", 1))
	require.NoError(t, s.exec(t.Context(), Channel, []string{"two"}))
	require.NotEqual(t, before, s.key.sign("x", 1))
	_, number := s.key.verify(s.key.sign("x", 7))
	require.EqualValues(t, 7, number)
}

func TestMalformedSQLWaitersAreRefused(t *testing.T) {
	t.Parallel()
	tooLong, err := json.Marshal([]any{"q", strings.Repeat("x", maxName+1), nil})
	require.NoError(t, err)
	for request, want := range map[string]string{
		``: "unexpected end of JSON input", `null`: "want a JSON array of queue, group and partition", `{}`: "cannot unmarshal", `["q"]`: "want a JSON array of queue, group and partition", `["q","g"]`: "want a JSON array of queue, group and partition",
		`["q","g",null,null]`: "want a JSON array of queue, group and partition", `[null,"g",null]`: "want a JSON array of queue, group and partition", `["q",null,null]`: "want a JSON array of queue, group and partition",
		`["","g",null]`: "a name is empty", `["q","",null]`: "a name is empty", `["q","g",1]`: "cannot unmarshal",
		"[\"q\",\"g\",null]\n": "", `["q","g",null]]`: "after top-level value", `["q","g",null]["q","g",null]`: "after top-level value",
		string(tooLong): "a name has 256 characters, the limit is 255", `["a\u0000b","g",null]`: "NUL", `["q","g","\u0000"]`: "NUL",
	} {
		waiter, err := decodeSQLWaiter([]byte(request))
		if want == "" {
			require.NoError(t, err, request)
			continue
		}
		require.ErrorContains(t, err, want, request)
		require.Zero(t, waiter)
	}
}

// No payload makes verify or open panic. verify and open never accept an unsigned payload.
func FuzzVerify(f *testing.F) {
	f.Add("1;i=x;n=7;m=00")
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, payload string) {
		key := channelKey{}
		key.set([]byte("a key"))
		text, number := key.verify(payload)
		require.Equal(t, payload, text)
		require.Zero(t, number)
		_, _, _, err := key.open(payload)
		require.Error(t, err)
		_, err = key.readSQLWaiter(payload, 1)
		require.Error(t, err)
		signed := key.sign(payload, 7)
		if text, number = key.verify(signed); !strings.Contains(payload, tagPart) {
			require.Equal(t, payload, text)
			require.EqualValues(t, 7, number)
		}
	})
}
