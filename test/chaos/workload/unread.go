package workload

import (
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/history"
	"github.com/belfry-mq/belfry/test/chaos/principals"
)

// unreadGroups are the groups that do not use autoAck.
var unreadGroups = groups[:3]

// PopUnread pops from a common queue on conn and reads one byte of the answer, so that the claim has ended. The
// history has a pop of unknown outcome, because no client acknowledges the messages. The caller leaves conn open for
// a while and then closes it.
func (c *Clients) PopUnread(conn net.Conn, choose *rand.Rand) {
	name, group := queueName(choose.IntN(c.cfg.Queues)), unreadGroups[choose.IntN(len(unreadGroups))]
	target := fmt.Sprintf("/api/v1/pop/queue/%s?batch=%d&partitions=%d", name, 1+choose.IntN(mostBatch), 1+choose.IntN(c.cfg.Partitions))
	if group != "" {
		target += "&consumerGroup=" + group
	}
	o := c.cfg.Recorder.Begin(history.Operation{Client: "unread", Kind: history.Pop, Queue: name, Group: groupName(group)})
	_ = conn.SetReadDeadline(time.Now().Add(callTimeout))
	_, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: chaos\r\nAuthorization: %s\r\n\r\n", target, principals.Consumer)
	if err == nil {
		_, err = conn.Read(make([]byte, 1))
	}
	o.Outcome, o.Error = history.Unknown, "the client did not read the answer"
	if err != nil {
		o.Error = err.Error()
	}
	c.cfg.Recorder.End(o)
}
