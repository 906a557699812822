package when

import (
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// Spec describes the instants of a schedule. Exactly one of Cron, Every and At is set.
type Spec struct {
	// Cron is an expression with five or six fields, or a name such as @daily.
	Cron string
	// Every is the distance between two instants in elapsed time. It is at least 1 s, in whole microseconds.
	Every time.Duration
	// At is the only instant.
	At time.Time
	// Zone is the IANA name of the time zone. The default is UTC.
	Zone string
	// Starts is the earliest instant that may come. Every counts from Starts. The zero value sets no limit.
	Starts time.Time
	// Ends is the end of the schedule. No instant is at or after Ends. The zero value sets no limit.
	Ends time.Time
}

// lastYear is the last year with an instant. Later instants have no text in RFC 3339.
const lastYear = 9999

// maxZone is the limit for the length of the name of a time zone. The longest name has 32 bytes.
const maxZone = 64

// Rule computes the instants of a Spec. It does not change, so several goroutines may use it.
type Rule struct {
	spec Spec
	zone *time.Location
	cron *expression // nil unless spec.Cron is set
}

// Parse checks a Spec. Each error is a queue.Error with CodeInvalid. It names the member of the Spec and says what to change.
func Parse(spec Spec) (*Rule, error) {
	spec.Cron, spec.Zone = strings.Join(strings.Fields(spec.Cron), " "), strings.TrimSpace(spec.Zone)
	for _, member := range []struct {
		name string
		at   *time.Time
	}{{"at", &spec.At}, {"starts", &spec.Starts}, {"ends", &spec.Ends}} {
		if year := member.at.UTC().Year(); year < 1 || year > lastYear {
			return nil, queue.Invalidf("%s is in the year %d: give a year from 1 to %d", member.name, year, lastYear)
		}
		*member.at = member.at.UTC().Truncate(time.Microsecond)
	}
	if err := spec.one(); err != nil {
		return nil, err
	}
	zone, err := loadZone(spec.Zone)
	if err != nil {
		return nil, err
	}
	rule := &Rule{spec: spec, zone: zone}
	if spec.Cron != "" {
		if rule.cron, err = parseCron(spec.Cron); err != nil {
			return nil, err
		}
	}
	if err := rule.runs(); err != nil {
		return nil, err
	}
	return rule, nil
}

// one returns an error unless exactly one of Cron, Every and At is set, with a value that can be used.
func (s *Spec) one() error {
	kinds := 0
	for _, set := range []bool{s.Cron != "", s.Every != 0, !s.At.IsZero()} {
		if set {
			kinds++
		}
	}
	switch {
	case kinds == 0:
		return queue.Invalidf("the schedule has no instants: give one of cron, every and at")
	case kinds > 1:
		return queue.Invalidf("the schedule has more than one of cron, every and at: give only one of them")
	case s.Every != 0 && s.Every < time.Second:
		return queue.Invalidf("every is %v: give at least 1s", s.Every)
	case s.Every%time.Microsecond != 0:
		return queue.Invalidf("every is %v: give whole microseconds", s.Every)
	case !s.Ends.IsZero() && !s.Ends.After(s.Starts):
		return queue.Invalidf("ends is not after starts: give a later ends, or leave it out")
	}
	return nil
}

// loadZone returns the location of an IANA name.
func loadZone(name string) (*time.Location, error) {
	switch {
	case name == "" || name == "UTC":
		return time.UTC, nil
	case len(name) > maxZone:
		return nil, queue.Invalidf("zone has %d bytes: give the IANA name of a time zone, such as \"Europe/Rome\"", len(name))
	case name == "Local": // the zone of this server, which may differ between instances
		return nil, queue.Invalidf(`zone is "Local": give the IANA name of a time zone, such as "Europe/Rome"`)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, queue.Invalidf("zone %q is unknown: give the IANA name of a time zone, such as \"Europe/Rome\"", name)
	}
	return zone, nil
}

// runs returns an error if no instant lies between Starts and Ends.
func (r *Rule) runs() error {
	first, ok := r.unbounded(r.earliest())
	once, late := !r.spec.At.IsZero(), !r.spec.Ends.IsZero() && !first.Before(r.spec.Ends)
	switch {
	case once && !ok:
		return queue.Invalidf("at is before starts: give a later at, or an earlier starts")
	case once && late:
		return queue.Invalidf("at is not before ends: give an earlier at, or a later ends")
	case !ok || first.Year() > lastYear:
		return queue.Invalidf("no instant of the schedule comes between starts and the end of the year %d: give an earlier starts", lastYear)
	case late && !r.spec.Starts.IsZero():
		return queue.Invalidf("no instant of the schedule comes between starts and ends, because the first one is %s: give a later ends",
			first.Format(time.RFC3339))
	}
	return nil
}
