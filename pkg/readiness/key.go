package readiness

import "github.com/belfry-mq/belfry/pkg/queue"

// Key is something a ticket can wait for: a group (any partition), one partition of it, a name that
// does not exist yet, or the tags of a pop.
type Key struct {
	target queue.Target
	name   string
}

// anyCreation stands for the creation of any queue or partition.
var anyCreation = Key{name: "*"}

// TargetKey is the key of a target. It ignores the epoch, because announcements carry none. A group
// of another epoch with the same id shares the key, and an unneeded wake is harmless.
func TargetKey(t queue.Target) Key {
	t.Epoch = 0
	return Key{target: t}
}

// PartitionOf returns the partition that woke a request. 0: the wake was for no partition in particular.
func PartitionOf(wake Wake) int64 {
	if len(wake.Keys) == 0 {
		return 0
	}
	return wake.Keys[0].target.Partition
}

// CreationKeys are the keys of a pop whose queue or partition does not exist. The creation of the
// queue matters also for a partition: a partition created together with its queue is announced as
// the queue.
func CreationKeys(req *queue.PopRequest) []Key {
	keys := []Key{anyCreation, creationKey(req.Queue, "")}
	if req.Partition != nil {
		keys = append(keys, creationKey(req.Queue, *req.Partition))
	}
	return keys
}

// TagKeys are the keys of a pop by tags that looked at these groups.
func TagKeys(req *queue.PopRequest, groups []int64) []Key {
	keys := []Key{anyCreation, TagKey(req)}
	for _, group := range groups {
		keys = append(keys, TargetKey(queue.Target{Group: group}))
	}
	return keys
}

// TagKey is the key of all pops by the same tags. It has at least four NULs and a creation key has
// one, so the two kinds are never equal.
func TagKey(req *queue.PopRequest) Key {
	return Key{name: "\x00" + req.Tags.Namespace + "\x00" + req.Tags.Task + "\x00" + req.Group + "\x00" + string(req.Tags.Allowed)}
}

func creationKey(queueName, partition string) Key {
	return Key{name: queueName + "\x00" + partition}
}
