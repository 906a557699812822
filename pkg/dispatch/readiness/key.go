package readiness

import (
	"strings"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// Key is something that a ticket can wait for: a group (any partition), one partition of a group, a name that does not exist yet,
// the tags of a pop, or a creation.
type Key struct {
	kind   keyKind
	target queue.Target
	name   string
}

// keyKind says what a Key stands for.
type keyKind uint8

const (
	kindTarget   keyKind = iota
	kindName             // a queue or partition that does not exist, and a group
	kindTags             // the pops by the same tags
	kindCreation         // the creation of a queue or partition
	kindAnyName          // the creation of any queue or partition, for pops that wait for a name
	kindAnyQueue         // the creation of any queue, for pops by tags
)

var (
	anyName  = Key{kind: kindAnyName}
	anyQueue = Key{kind: kindAnyQueue}
)

// TargetKey is the key of a target. It ignores the epoch, because announcements carry none. A group
// of another epoch with the same id shares the key, and an unneeded wake is harmless.
func TargetKey(t queue.Target) Key {
	t.Epoch = 0
	return Key{target: t}
}

// PartitionOf returns the partition that woke an intent. 0: the wake was not for one partition.
func PartitionOf(wake Wake) int64 {
	if len(wake.Keys) == 0 {
		return 0
	}
	return wake.Keys[0].target.Partition
}

// CreationKeys are the keys of a pop whose queue or partition does not exist. They have the creation of the queue even if the pop
// names a partition. The reason: for a partition that is created together with its queue, only the queue is announced.
//
// The first key is the same for all pops with the same name and group. A creation wakes one of these pops.
func CreationKeys(req *queue.PopRequest) []Key {
	keys := []Key{nameKey(req), anyName, creationKey(req.Queue, "")}
	if req.Partition != nil {
		keys = append(keys, creationKey(req.Queue, *req.Partition))
	}
	return keys
}

// TagKeys are the keys of a pop by tags that searched these groups. The creation of a queue wakes one of the pops with the same
// first key.
func TagKeys(req *queue.PopRequest, groups []int64) []Key {
	keys := []Key{TagKey(req), anyQueue}
	for _, group := range groups {
		keys = append(keys, TargetKey(queue.Target{Group: group}))
	}
	return keys
}

// TagKey is the key of all pops by the same tags.
func TagKey(req *queue.PopRequest) Key {
	return Key{kind: kindTags, name: joined(req.Tags.Namespace, req.Tags.Task, req.Group, string(req.Tags.Allowed))}
}

func nameKey(req *queue.PopRequest) Key {
	if req.Partition == nil {
		return Key{kind: kindName, name: joined(req.Queue, req.Group)}
	}
	return Key{kind: kindName, name: joined(req.Queue, req.Group, *req.Partition)}
}

func creationKey(queueName, partition string) Key {
	return Key{kind: kindCreation, name: joined(queueName, partition)}
}

// joined joins names with NUL, which no name contains.
func joined(names ...string) string { return strings.Join(names, "\x00") }
