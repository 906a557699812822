package data

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/httpapi/sent"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/process/inflight"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// maxInFlightDefault and maxInFlight are the default and the largest value of max_in_flight.
	maxInFlightDefault, maxInFlight = 100, 10_000
	// firstWait is the wait of the first pop of a stream. The answer begins only after the first pop, so a
	// refused stream gets an error status, like a refused long poll.
	firstWait = time.Millisecond
	// firstCheck is how long a full stream waits before it asks the database which messages are finished.
	// Each further wait is twice as long, up to maxCheck.
	firstCheck, maxCheck = time.Second, 15 * time.Second
)

// errLeft means that the client of a stream has disconnected.
var errLeft = errors.New("the client of the stream disconnected")

// streamEnd ends a stream for one of the reasons of package wire.
type streamEnd string

func (e streamEnd) Error() string { return "the stream ends: " + string(e) }

// queueStream is a stream of messages. The goroutine of its handler sends messages, and a timer sends keep-alives.
type queueStream struct {
	*Handlers
	c      *wire.Params
	most   int // max_in_flight
	batch  int
	sent   *sent.Stream
	ends   time.Time
	next   *queue.PopRequest     // the current or the next pop
	memory *inflight.Reservation // the memory for the messages of next

	// ctx is the context of the request. net/http ends it when the client disconnects or a write fails.
	ctx context.Context
	// writing guards stream and finished. stream is nil until the answer begins.
	writing sync.Mutex
	stream  *wire.EventStream
	beat    *time.Timer
	// finished means that the handler returns. After that, keepAlive must not write.
	finished bool
}

// StreamQueue serves GET /api/v1/sse/queue/:queue. Queen MQ does not have this route. StreamQueue pops in a
// loop, and waits like a long poll. It sends at most max_in_flight messages that are not acknowledged.
//
// When the client disconnects, StreamQueue releases the leases. When the server ends the stream, it keeps the
// leases, because the client has the messages and can acknowledge them at another server.
//
// StreamQueue calls the dispatcher directly and has a small stack frame, because thousands of streams may wait
// in the dispatcher. See package dispatch.
func (h *Handlers) StreamQueue(c echo.Context) error {
	s, err := h.newQueueStream(&wire.Params{Context: c})
	if err != nil {
		return err
	}
	for err == nil {
		var delivery *queue.Delivery
		if err = s.prepare(); err == nil {
			if delivery, err = s.Popper.Pop(s.ctx, s.next); err == nil {
				s.Holders.Took(c, delivery.LeaseID)
			}
		}
		err = s.deliver(delivery, err)
	}
	return s.finish(err)
}

func (h *Handlers) newQueueStream(p *wire.Params) (*queueStream, error) {
	s := &queueStream{Handlers: h, c: p, next: h.popRequest(p), sent: h.InFlight.Stream(), ends: wire.End(p)}
	s.next.Queue = p.PathName("queue")
	if s.next.Partition = p.Name("partition"); s.next.Partition != nil {
		s.next.Partitions = 1
	}
	s.batch = s.next.Batch
	s.most = wire.Clamp(1, wire.LeadingInt(p.QueryParam("max_in_flight"), maxInFlightDefault), maxInFlight)
	if s.next.AutoAck {
		p.Check(queue.Invalidf("autoAck is not possible for a stream: remove it, and acknowledge with POST /api/v1/ack"))
	}
	if p.Err != nil {
		return nil, p.Err
	}
	s.ctx = p.Ctx()
	return s, mayPop(p.Ctx(), s.next)
}

// finish ends the stream. why is the reason, and is not nil.
func (s *queueStream) finish(why error) error {
	if s.beat != nil {
		s.beat.Stop()
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	s.finished = true
	leases := s.sent.End()
	switch {
	case errors.Is(why, errLeft):
		for _, lease := range leases {
			s.Popper.Release(s.c.Ctx(), &queue.Delivery{Queue: s.next.Queue, LeaseID: lease, Messages: make([]queue.Message, 1)})
		}
		return nil
	case s.stream == nil:
		return why
	default:
		return s.close(why)
	}
}

// prepare creates the request of the next pop, and reserves memory for its messages.
func (s *queueStream) prepare() error {
	s.memory = wire.Memory(s.c).Another()
	if s.memory.AnswerBytesLeft() == 0 {
		return queue.MemoryFull()
	}
	wait := firstWait
	if s.stream != nil {
		wait = max(firstWait, min(maxWait, time.Until(s.ends)))
	}
	req := *s.next // a late handoff may still read the request of the last pop
	req.Wait, req.Batch, req.Memory = wait, min(s.batch, s.most-s.sent.Count()), s.memory
	req.WaitingSince, req.RefreshSince = time.Time{}, time.Time{}
	s.next = &req
	return nil
}

// deliver sends the delivery of a pop. If the stream then has max_in_flight messages, it waits for an acknowledgment.
func (s *queueStream) deliver(delivery *queue.Delivery, err error) error {
	if err := s.sendDelivery(delivery, err); err != nil || s.sent.Count() < s.most {
		return err
	}
	return s.waitForPlace()
}

func (s *queueStream) sendDelivery(delivery *queue.Delivery, err error) error {
	defer s.memory.End()
	switch {
	case err != nil && s.ctx.Err() != nil: // the pop has released the messages that it claimed
		return errLeft
	case errors.Is(err, queue.ErrJoining):
		delivery = &queue.Delivery{} // the group still joins the queue; the loop pops again
	case err != nil:
		return err
	case s.stream == nil && delivery.Displaced:
		return &queue.Error{Code: queue.CodeOverloaded, RetryAfter: time.Second, Message: "the server gave the place of this request to another request; send the request again"}
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := identity.Valid(s.ctx); err != nil { // the rights may have ended while keepAlive held the lock
		s.Popper.Release(s.ctx, delivery)
		return err
	}
	s.sent.Add(delivery)
	if s.stream == nil {
		if s.stream, err = s.Streams.Start(s.c); err != nil {
			return errLeft
		}
		s.beat = time.AfterFunc(wire.KeepAlive, s.keepAlive)
	}
	if len(delivery.Messages) == 0 {
		return s.over()
	}
	s.beat.Reset(wire.KeepAlive)
	return s.send(delivery)
}

// keepAlive sends a comment after wire.KeepAlive without messages. If the write fails, net/http ends ctx.
func (s *queueStream) keepAlive() {
	s.writing.Lock()
	defer s.writing.Unlock()
	if !s.finished && s.ctx.Err() == nil && s.stream.KeepAlive() == nil {
		s.beat.Reset(wire.KeepAlive)
	}
}

// send sends the messages of a delivery, even if the stream must end afterwards, because they are leased to its client.
func (s *queueStream) send(d *queue.Delivery) error {
	lease, group := wire.AppendID(nil, "", d.LeaseID), wire.AppendString(nil, "", d.Group)
	for i := range d.Messages {
		m := &d.Messages[i]
		b := append(appendIDs(make([]byte, 0, m.AnswerSize()+len(m.Partition.Name)), m), m.Payload...)
		s.stream.Append("message", m.ID.String(), appendRest(b, m, lease, group))
	}
	if s.stream.Flush() != nil {
		return errLeft
	}
	s.Meter.Delivered(d)
	return s.over()
}

// over returns the reason why the stream must end, or nil.
func (s *queueStream) over() error {
	select {
	case <-s.ctx.Done():
		return errLeft
	case <-s.Streams.Ending:
		return streamEnd(wire.EndShutdown)
	default:
	}
	if !time.Now().Before(s.ends) {
		return streamEnd(wire.ReasonOf(s.ctx))
	}
	return identity.Valid(s.ctx)
}

// waitForPlace blocks while max_in_flight messages are not acknowledged. It notices acknowledgments at this
// instance at once. To notice acknowledgments at other instances and ended leases, it asks the database.
func (s *queueStream) waitForPlace() error {
	check := firstCheck
	timer, end := time.NewTimer(check), time.NewTimer(time.Until(s.ends))
	defer timer.Stop()
	defer end.Stop()
	for {
		revocation := s.Streams.NextRevocation()
		if err := s.over(); err != nil || s.sent.Count() < s.most {
			return err
		}
		select {
		case <-s.ctx.Done():
		case <-s.Streams.Ending:
		case <-end.C:
		case <-revocation:
		case <-s.sent.Freed():
		case <-timer.C:
			check = min(2*check, maxCheck)
			timer.Reset(check)
			if positions, err := s.Owners.InFlight(s.ctx, s.sent.Leases()); err == nil { // after an error, the next check asks again
				s.sent.Update(positions)
			}
		}
	}
}

// close sends the event closing. why is the reason for the end of the stream.
func (s *queueStream) close(why error) error {
	last := api.StreamEnd{Reason: wire.EndError}
	var end streamEnd
	var coded *queue.Error
	switch {
	case errors.As(why, &end):
		last.Reason = string(end)
	case queue.CodeOf(why) == queue.CodeUnauthenticated:
		last.Reason = wire.EndUnauthorized
	case errors.As(why, &coded) && coded.Code == queue.CodeOverloaded:
		last.Reason, last.RetryAfter, last.Error = wire.EndOverloaded, new(wire.RetryAfter(coded)), new(s.Report(s.c, why))
	default:
		last.Error = new(s.Report(s.c, why))
	}
	if err := s.stream.AppendJSON("closing", "", last); err != nil {
		return err
	}
	return s.stream.Flush()
}
