package dataplane

import (
	"errors"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// maxInFlightDefault and maxInFlight are the default and the largest value of max_in_flight.
	maxInFlightDefault, maxInFlight = 100, 10_000
	// firstWait is the wait of the first pop of a stream. That pop comes before the answer begins, so a
	// stream that is refused gets a status like a long poll.
	firstWait = time.Millisecond
	// firstCheck is how long a full stream waits until it asks the database which messages are done. The
	// next waits are twice as long, up to maxCheck.
	firstCheck, maxCheck = time.Second, 15 * time.Second
)

// errLeft ends a stream whose client has left.
var errLeft = errors.New("the client of the stream left")

// streamEnd ends a stream for one of the reasons of package wire.
type streamEnd string

func (e streamEnd) Error() string { return "the stream ends: " + string(e) }

// queueStream is a stream of messages. The goroutine of its handler uses it alone.
type queueStream struct {
	*Handlers
	c      *wire.Params
	req    queue.PopRequest
	most   int // max_in_flight
	sent   *flightStream
	stream *wire.EventStream // nil until the answer begins
	end    time.Time
}

// StreamQueue serves GET /api/v1/sse/queue/:queue. Queen MQ does not have it. It pops in a loop, with the
// waits of a long poll. An acknowledgment frees a place for one more message.
//
// When the client leaves, its leases are released. When the server ends the stream they are kept, because
// the client has the messages and acknowledges them at another server.
func (h *Handlers) StreamQueue(c echo.Context) error {
	p := &wire.Params{Context: c}
	s := &queueStream{Handlers: h, c: p, req: *h.popRequest(p), sent: h.InFlight.stream(), end: wire.End(c)}
	s.req.Queue = p.PathName("queue")
	if s.req.Partition = p.Name("partition"); s.req.Partition != nil {
		s.req.Partitions = 1
	}
	s.most = wire.Clamp(1, wire.LeadingInt(c.QueryParam("max_in_flight"), maxInFlightDefault), maxInFlight)
	if s.req.AutoAck {
		p.Check(queue.Invalidf("autoAck is set: a stream delivers with leases; acknowledge with POST /api/v1/ack"))
	}
	if p.Err != nil {
		return p.Err
	}
	if err := mayPop(p.Ctx(), &s.req); err != nil {
		return err
	}
	err := s.run()
	leases := s.sent.end()
	switch {
	case errors.Is(err, errLeft):
		for _, lease := range leases {
			h.Popper.Release(p.Ctx(), &queue.Delivery{Queue: s.req.Queue, LeaseID: lease, Messages: make([]queue.Message, 1)})
		}
		return nil
	case s.stream == nil:
		return err
	default:
		return s.close(err)
	}
}

// run delivers until the stream ends, and returns why.
func (s *queueStream) run() error {
	for wait := firstWait; ; wait = wire.KeepAlive {
		if err := s.deliver(wait); err != nil {
			return err
		}
		if err := s.waitForPlace(); err != nil {
			return err
		}
	}
}

// deliver pops once, and sends what it got, or a keep-alive if the wait ended without a message.
func (s *queueStream) deliver(wait time.Duration) error {
	memory := s.Bodies.Budget.Reservation()
	defer memory.End()
	req := s.req
	req.Wait, req.Batch, req.Memory = max(firstWait, min(wait, time.Until(s.end))), min(req.Batch, s.most-s.sent.count()), memory
	if memory.AnswerBytesLeft() == 0 {
		return queue.MemoryFull()
	}
	delivery, err := s.Popper.Pop(s.c.Ctx(), &req)
	switch {
	case s.c.Ctx().Err() != nil && err != nil:
		return errLeft // the pop has released what it claimed
	case err != nil:
		return err
	}
	s.sent.add(delivery)
	if s.stream == nil {
		if s.stream, err = s.Streams.Start(s.c); err != nil {
			return errLeft
		}
	}
	if len(delivery.Messages) > 0 {
		return s.send(delivery)
	}
	if err := s.over(); err != nil {
		return err
	}
	if s.stream.KeepAlive() != nil {
		return errLeft
	}
	return nil
}

// send sends messages. A stream that is over sends them too: they are leased to it.
func (s *queueStream) send(d *queue.Delivery) error {
	lease, group := wire.AppendID(nil, "", d.LeaseID), wire.AppendString(nil, "", d.Group)
	for i := range d.Messages {
		m := &d.Messages[i]
		b := append(appendIDs(make([]byte, 0, m.AnswerSize()+len(m.Partition.Name)), m), m.Payload...)
		s.stream.Append("message", m.ID.String(), appendRest(b, m, lease, group))
	}
	if s.stream.Flush() != nil || s.c.Ctx().Err() != nil {
		return errLeft
	}
	s.Meter.Delivered(d)
	return s.over()
}

// over returns why the stream must end, or nil.
func (s *queueStream) over() error {
	select {
	case <-s.c.Ctx().Done():
		return errLeft
	case <-s.Streams.Ending:
		return streamEnd(wire.EndShutdown)
	default:
	}
	if !time.Now().Before(s.end) {
		return streamEnd(s.Streams.ReasonOf(s.c.Ctx()))
	}
	if s.Streams.Valid(s.c.Ctx()) != nil {
		return streamEnd(wire.EndUnauthorized)
	}
	return nil
}

// waitForPlace blocks while max_in_flight messages are not acknowledged. Acknowledgments at this instance
// free places at once. For those elsewhere, and for leases that end, it asks the database.
func (s *queueStream) waitForPlace() error {
	check := firstCheck
	var timer, beat, end *time.Timer
	for s.sent.count() >= s.most {
		if timer == nil {
			timer, beat, end = time.NewTimer(check), time.NewTimer(wire.KeepAlive), time.NewTimer(time.Until(s.end))
			defer end.Stop()
			defer timer.Stop()
			defer beat.Stop()
		}
		select {
		case <-s.c.Ctx().Done():
		case <-s.Streams.Ending:
		case <-end.C:
		case <-s.sent.freed:
		case <-beat.C:
			if s.stream.KeepAlive() != nil {
				return errLeft
			}
			beat.Reset(wire.KeepAlive)
		case <-timer.C:
			check = min(2*check, maxCheck)
			timer.Reset(check)
			if positions, err := s.Owners.InFlight(s.c.Ctx(), s.sent.leases()); err == nil { // else at the next check
				s.sent.update(positions)
			}
		}
		if err := s.over(); err != nil {
			return err
		}
	}
	return nil
}

// close sends the last event.
func (s *queueStream) close(why error) error {
	last := wire.Fields{"reason", wire.EndError}
	var end streamEnd
	if errors.As(why, &end) {
		last[1] = string(end)
	} else {
		last = append(last, "error", s.Report(s.c, why))
	}
	if err := s.stream.AppendJSON("closing", "", last); err != nil {
		return err
	}
	return s.stream.Flush()
}
