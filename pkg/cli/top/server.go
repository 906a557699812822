package top

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/belfry-mq/belfry/pkg/client"
	"github.com/belfry-mq/belfry/pkg/client/api"
)

// maxQueues is the maximum number of queues whose counts are read: the queues with the most unfinished messages.
const maxQueues = "1000"

// maxExplained is the maximum number of groups that are explained for a queue.
const maxExplained = 5

// server sends the requests of the screen.
type server struct{ client *client.Client }

// counts reads the counts of queues.
func (s *server) counts(ctx context.Context) (map[string]stored, error) {
	var answer api.QueuePage
	err := s.client.Do(ctx, client.Request{Path: "/api/v1/queues", Query: url.Values{"limit": {maxQueues}, "sort": {"backlog"}}}, &answer)
	counts := map[string]stored{}
	for _, q := range answer.Queues {
		counts[q.Name] = stored{Pending: q.Messages.Pending, Dead: q.DeadLetters, Paused: q.Paused}
	}
	return counts, err
}

// pause pauses or resumes a queue.
func (s *server) pause(ctx context.Context, queue, verb string) error {
	path := "/api/v1/resources/queues/" + url.PathEscape(queue) + "/" + verb
	return s.client.Do(ctx, client.Request{Method: http.MethodPost, Path: path}, nil)
}

// explain returns one line for each group of a queue. The line explains the partition with the highest lag of the
// group.
func (s *server) explain(ctx context.Context, queue string) (lines []string, err error) {
	var answer api.QueueGroups
	path := "/api/v1/resources/queues/" + url.PathEscape(queue) + "/groups"
	if err := s.client.Do(ctx, client.Request{Path: path, Query: url.Values{"limit": {strconv.Itoa(maxExplained + 1)}}}, &answer); err != nil {
		return nil, err
	}
	for _, g := range answer.Groups {
		if len(lines) == maxExplained {
			return append(lines, "and other groups: see \"belfry group list\""), nil
		}
		line, err := s.explainGroup(ctx, queue, g.Name)
		if err != nil {
			return nil, err
		}
		lines = append(lines, fmt.Sprintf("%s (%d messages to deliver): %s", g.Name, g.Lag, line))
	}
	if lines == nil {
		lines = []string{"No group reads the queue " + queue + "."}
	}
	return lines, nil
}

func (s *server) explainGroup(ctx context.Context, queue, group string) (string, error) {
	var places api.GroupDetail
	if err := s.client.Do(ctx, client.Request{Path: "/api/v1/consumer-groups/" + url.PathEscape(group)}, &places); err != nil {
		return "", err
	}
	worst, most := "", int64(-1)
	for _, p := range places[queue].Partitions {
		if p.OffsetLag > 0 && p.TimeLagSeconds > most {
			worst, most = p.Partition, p.TimeLagSeconds
		}
	}
	if most < 0 {
		return "the group has received all messages.", nil
	}
	var answer api.Explanation
	query := url.Values{"queue": {queue}, "partition": {worst}, "consumerGroup": {group}}
	err := s.client.Do(ctx, client.Request{Path: "/api/v1/explain", Query: query}, &answer)
	return "partition " + worst + ": " + answer.Sentence, err
}
