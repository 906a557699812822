package httpapi

import (
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/catalog"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// deletedGroup answers both deletions (section 6.2).
type deletedGroup struct {
	Success           bool    `json:"success"`
	ConsumerGroup     string  `json:"consumerGroup"`
	QueueName         *string `json:"queueName,omitempty"`
	DeletedPartitions int64   `json:"deletedPartitions"`
	MetadataDeleted   bool    `json:"metadataDeleted"`
}

// deleteGroup serves DELETE /api/v1/consumer-groups/:group: in all queues.
func (s *Server) deleteGroup(c echo.Context) error { return s.removeGroup(c, nil) }

// deleteGroupOfQueue serves DELETE /api/v1/consumer-groups/:group/queues/:queue.
func (s *Server) deleteGroupOfQueue(c echo.Context) error {
	name, err := pathName(c, "queue")
	if err != nil {
		return err
	}
	return s.removeGroup(c, &name)
}

// removeGroup deletes a group, with its stored subscription unless
// deleteMetadata says otherwise.
func (s *Server) removeGroup(c echo.Context, queueName *string) error {
	group, err := pathName(c, "group")
	if err != nil {
		return err
	}
	metadata := !c.QueryParams().Has("deleteMetadata") || isTrue(c.QueryParam("deleteMetadata"))
	deleted, err := s.deps.GroupVerbs.DeleteGroup(c.Request().Context(), group, queueName, !metadata)
	if err != nil {
		return err
	}
	return answerValue(c, http.StatusOK, deletedGroup{
		Success: true, ConsumerGroup: group, QueueName: queueName, DeletedPartitions: deleted.Cursors, MetadataDeleted: metadata,
	})
}

// moveSubscription serves POST /api/v1/consumer-groups/:group/subscription.
func (s *Server) moveSubscription(c echo.Context) error {
	group, err := pathName(c, "group")
	if err != nil {
		return err
	}
	body, err := s.readBody(c)
	if err != nil {
		return err
	}
	var start time.Time
	err = object(body, func(name string, value jsontext.Value) error {
		if name != "subscriptionTimestamp" || value.Kind() == 'n' {
			return nil
		}
		start, err = instantValue(name, value)
		return err
	})
	if err == nil && start.IsZero() {
		err = queue.Invalidf("subscriptionTimestamp is required: a timestamp like 2026-05-16T08:41:27.123Z")
	}
	if err != nil {
		return err
	}
	moved, err := s.deps.GroupVerbs.MoveSubscription(c.Request().Context(), group, start)
	if err != nil {
		return err
	}
	return answerValue(c, http.StatusOK, struct {
		Success       bool   `json:"success"`
		ConsumerGroup string `json:"consumerGroup"`
		NewTimestamp  string `json:"newTimestamp"`
		RowsUpdated   int64  `json:"rowsUpdated"`
	}{true, group, formatMillis(start), moved})
}

// seekQueue serves POST /api/v1/consumer-groups/:group/queues/:queue/seek.
func (s *Server) seekQueue(c echo.Context) error {
	group, name, err := seekNames(c)
	if err != nil {
		return err
	}
	place, given, err := s.readPlace(c)
	if err == nil && !given {
		err = queue.Invalidf("Must specify either 'toEnd': true or 'timestamp', or 'toBeginning': true")
	}
	if err != nil {
		return err
	}
	moved, err := s.deps.GroupVerbs.Seek(c.Request().Context(), name, group, place)
	if err != nil {
		return err
	}
	return answerValue(c, http.StatusOK, struct {
		Success           bool    `json:"success"`
		ConsumerGroup     string  `json:"consumerGroup"`
		QueueName         string  `json:"queueName"`
		SeekToEnd         bool    `json:"seekToEnd"`
		SeekToBeginning   bool    `json:"seekToBeginning"` // ours
		TargetTimestamp   *string `json:"targetTimestamp"`
		PartitionsUpdated int64   `json:"partitionsUpdated"`
	}{true, group, name, place.End, !place.End && place.After.IsZero(), millisOrNull(place.After), moved})
}

// seekPartition serves POST
// /api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/seek. It
// goes to the end unless it is told another place.
func (s *Server) seekPartition(c echo.Context) error {
	group, name, err := seekNames(c)
	if err != nil {
		return err
	}
	partition, err := pathName(c, "partition")
	if err != nil {
		return err
	}
	place, given, err := s.readPlace(c)
	if err != nil {
		return err
	}
	if !given {
		place.End = true
	}
	sought, err := s.deps.GroupVerbs.SeekPartition(c.Request().Context(), name, group, partition, place)
	if code := queue.CodeOf(err); code == queue.CodeNotFound {
		return answerValue(c, statusOf[code], struct {
			Success bool   `json:"success"`
			Error   string `json:"error"`
		}{false, err.Error()})
	}
	if err != nil {
		return err
	}
	return answerValue(c, http.StatusOK, struct {
		Success       bool    `json:"success"`
		ConsumerGroup string  `json:"consumerGroup"`
		QueueName     string  `json:"queueName"`
		PartitionName string  `json:"partitionName"`
		Updated       bool    `json:"updated"`
		CursorMovedTo *string `json:"cursorMovedTo"`
	}{true, group, name, partition, sought.Moved, idOrNull(sought.Message)})
}

func seekNames(c echo.Context) (group, queueName string, err error) {
	if group, err = pathName(c, "group"); err != nil {
		return "", "", err
	}
	queueName, err = pathName(c, "queue")
	return group, queueName, err
}

// readPlace reads where to seek to from the body or the query: toEnd,
// toBeginning or timestamp, and only one of them. given is false when there is
// none.
func (s *Server) readPlace(c echo.Context) (place catalog.Position, given bool, err error) {
	end, beginning := isTrue(c.QueryParam("toEnd")), isTrue(c.QueryParam("toBeginning"))
	if text := c.QueryParam("timestamp"); text != "" {
		if place.After, err = instant("timestamp", text, ""); err != nil {
			return place, false, err
		}
	}
	body, err := s.readOptionalBody(c)
	if err != nil {
		return place, false, err
	}
	if len(body) > 0 {
		err = object(body, func(name string, value jsontext.Value) (err error) {
			switch {
			case value.Kind() == 'n':
			case name == "toEnd":
				end, err = flag(name, value)
			case name == "toBeginning":
				beginning, err = flag(name, value)
			case name == "timestamp":
				place.After, err = instantValue(name, value)
			}
			return err
		})
	}
	chosen := 0
	for _, one := range []bool{end, beginning, !place.After.IsZero()} {
		if one {
			chosen++
		}
	}
	if err == nil && chosen > 1 {
		err = queue.Invalidf("toEnd, toBeginning and timestamp exclude each other: send one of them")
	}
	place.End = end
	return place, chosen == 1, err
}

// flag reads true or false.
func flag(field string, value jsontext.Value) (bool, error) {
	switch value.Kind() {
	case 't':
		return true, nil
	case 'f':
		return false, nil
	default:
		return false, queue.Invalidf("%s must be true or false, not %s", field, clip(string(value)))
	}
}

// instantValue reads a timestamp in a string.
func instantValue(field string, value jsontext.Value) (time.Time, error) {
	s, ok := text(value)
	if !ok {
		return time.Time{}, queue.Invalidf("%s must be a timestamp like \"2026-05-16T08:41:27.123Z\", not %s", field, clip(string(value)))
	}
	return instant(field, s, "")
}
