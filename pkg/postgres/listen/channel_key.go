package listen

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

const (
	// tagSize is the size of a tag in bytes. A tag is only the beginning of a SHA-256 hash, so nobody can compute the tag of an
	// extended text.
	tagSize = 16
	// MaxLive is the maximum size in bytes of a payload of SendLive. Encrypted and in base64, the payload has at most maxPayload
	// bytes.
	MaxLive = 5800
)

var sqlKey = sql.Query("postgres/listen/key")

var errForged = errors.New("it is not from an instance of this database, or it was sent before")

// channelKey is the key in belfry.channel_key. Only roles that can read every table know the key. So the key proves that an
// instance or belfry.await sent a notification. Listener and Sender share it. It is safe for concurrent use.
type channelKey struct{ value atomic.Pointer[[]byte] }

// load reads the key over conn.
func (k *channelKey) load(ctx context.Context, conn *pgx.Conn) error {
	var key string
	if err := conn.QueryRow(ctx, sqlKey).Scan(&key); err != nil {
		return fmt.Errorf("reading belfry.channel_key: %w", err)
	}
	k.setHex(key)
	return nil
}

// setHex sets a key in hex, as Postgres encodes it, and reports whether a different key was set before.
func (k *channelKey) setHex(text string) (changed bool) {
	key, _ := hex.DecodeString(text)
	return k.set(key)
}

// set sets the key, and reports whether a different key was set before.
func (k *channelKey) set(key []byte) (changed bool) {
	old := k.value.Swap(&key)
	return old != nil && !bytes.Equal(*old, key)
}

// hash returns a keyed hash. No purpose may be a prefix of another purpose. Until a key is loaded, hash uses a random key.
func (k *channelKey) hash(purpose string, parts ...[]byte) []byte {
	h := sha256.New()
	if key := k.value.Load(); key != nil {
		h.Write(*key)
	} else {
		h.Write([]byte(rand.Text()))
	}
	h.Write([]byte(purpose))
	for _, part := range parts {
		h.Write(part)
	}
	return h.Sum(nil)
}

// A payload of an instance on Channel ends with two parts: the number of the payload, and the tag of everything before the tag.
const numberPart, tagPart = ";n=", ";m="

// sign adds a number and a tag to a payload of Encode. A sender never uses a number twice.
func (k *channelKey) sign(payload string, number uint64) string {
	payload += numberPart + strconv.FormatUint(number, 10)
	return payload + tagPart + hex.EncodeToString(k.hash("hints", []byte(payload))[:tagSize])
}

// verify undoes sign. If the payload has no tag or a wrong tag, every role may have sent it, and number is 0.
func (k *channelKey) verify(signed string) (payload string, number uint64) {
	text, tag, _ := strings.Cut(signed, tagPart)
	at := strings.LastIndex(text, numberPart)
	if at < 0 || !hmac.Equal([]byte(tag), []byte(hex.EncodeToString(k.hash("hints", []byte(text))[:tagSize]))) {
		return signed, 0
	}
	number, _ = strconv.ParseUint(text[at+len(numberPart):], 10, 64) // the tag is right, so sign wrote the number
	return text[:at], number
}

// aead returns the cipher of the payloads on LiveChannel.
func (k *channelKey) aead() cipher.AEAD {
	block, err := aes.NewCipher(k.hash("live"))
	if err != nil {
		panic(err) // the key has 32 bytes
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // the block has 16 bytes
	}
	return aead
}

// liveHead is the size of the fields before a payload of SendLive: the instance and the number.
const liveHead = len(queue.ID{}) + 8

// seal encrypts a payload of SendLive.
func (k *channelKey) seal(payload string, instance queue.ID, number uint64) string {
	text := binary.BigEndian.AppendUint64(append([]byte(nil), instance[:]...), number)
	return base64.RawStdEncoding.EncodeToString(k.aead().Seal(nil, nil, append(text, payload...), nil))
}

// open undoes seal.
func (k *channelKey) open(sealed string) (payload string, instance queue.ID, number uint64, err error) {
	text, err := base64.RawStdEncoding.DecodeString(sealed)
	if err == nil {
		text, err = k.aead().Open(nil, nil, text, nil)
	}
	if err != nil || len(text) < liveHead {
		return "", instance, 0, errForged
	}
	copy(instance[:], text)
	return string(text[liveHead:]), instance, binary.BigEndian.Uint64(text[len(instance):]), nil
}

// openWaiter returns the request that belfry.await encrypted in the session with the process id pid.
func (k *channelKey) openWaiter(sealed string, pid uint32) ([]byte, error) {
	text, err := base64.StdEncoding.DecodeString(sealed) // skips the line breaks of Postgres
	if err != nil || len(text) < tagSize {
		return nil, errForged
	}
	tag, request := text[:tagSize], text[tagSize:]
	for i := range request {
		if i%sha256.Size == 0 {
			mask := k.hash("mask", tag, binary.BigEndian.AppendUint32(nil, uint32(i/sha256.Size)))
			for j := 0; j < sha256.Size && i+j < len(request); j++ {
				request[i+j] ^= mask[j]
			}
		}
	}
	if !hmac.Equal(tag, k.hash("waiter", binary.BigEndian.AppendUint32(nil, pid), request)[:tagSize]) {
		return nil, errForged
	}
	return request, nil
}

// waiterChannel returns the channel that belfry.await returns for a request.
func (k *channelKey) waiterChannel(request []byte) string {
	return "belfry_" + hex.EncodeToString(k.hash("channel", request)[:tagSize])
}
