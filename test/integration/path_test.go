package integration_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// spelled returns three spellings of a name in a path: as Go's PathEscape, as JavaScript's encodeURIComponent, which
// escapes more characters, and with every byte escaped.
func spelled(name string) []string {
	every := &strings.Builder{}
	for i := range len(name) {
		const hex = "0123456789ABCDEF"
		every.WriteString("%" + string(hex[name[i]>>4]) + string(hex[name[i]&15]))
	}
	return []string{
		url.PathEscape(name),
		strings.ReplaceAll(url.QueryEscape(name), "+", "%20"),
		every.String(),
	}
}

func TestNamesInPaths(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, name := range []string{
		"plain", "with space", " edges ", "grüße 世界 🎉", "100%", "%41", "a%2Fb", "a+b", "a/b", "/", "a//b/", "a?b=c&d", "a#b", "a;b,c=d@e:f$g",
		`a"b'c\d`, "<a>|^`{}[]", "a\tb\nc", "*", ":queue", "a/../b", "queue", "partition",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := s.client(t)
			for i, spelling := range spelled(name) {
				c.push(item{Queue: name, Partition: name, TransactionID: name}).ok(http.StatusCreated)
				for j, target := range []string{
					"/api/v1/pop/queue/" + spelling,
					"/api/v1/pop/queue/" + spelling + "/partition/" + spelling,
				} {
					group := fmt.Sprintf("%s %d.%d", name, i, j)
					answer := ask[delivery](c, get(target+"?consumerGroup="+url.QueryEscape(group)))
					got := answer.ok(http.StatusOK)
					require.Equal(t, name, got.Queue, target)
					require.Equal(t, name, got.Partition, target)
					require.Equal(t, []string{name}, got.ids(), target)
					require.Equal(t, group, got.ConsumerGroup, target)
					for _, one := range c.ackBatch(group, got.ack("completed")...).ok(http.StatusOK) {
						require.True(t, one.Success, one.reason())
						require.Equal(t, &name, one.QueueName)
						require.Equal(t, &name, one.PartitionName)
					}
				}
			}
			for _, spelling := range spelled(name) {
				c.push(item{Queue: name}).ok(http.StatusCreated)
				removed := ask[deleted](c, remove("/api/v1/resources/queues/"+spelling))
				require.Equal(t, deleted{Deleted: true, Queue: name, Existed: true}, removed.ok(http.StatusOK), spelling)
			}
		})
	}
	// Go's url.PathEscape leaves some characters unescaped. An escaped slash must not change how the server decodes the
	// rest.
	t.Run("mixed escapes", func(t *testing.T) {
		t.Parallel()
		c := s.client(t)
		c.push(item{Queue: "a/b+c %d", Partition: "p+q%2F"}).ok(http.StatusCreated)
		got := ask[delivery](c, get("/api/v1/pop/queue/a%2Fb+c%20%25d/partition/p+q%252F"))
		require.Equal(t, "p+q%2F", got.ok(http.StatusOK).Partition)
	})
}
