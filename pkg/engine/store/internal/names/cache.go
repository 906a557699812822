// Package names finds partitions and consumer groups by name, creates them, and caches their ids.
//
// # What is remembered
//
// The cache holds the id of a partition or a group by its name. A deletion does not remove the id
// from the cache. But the statements that use the id detect the deletion: a push fails with
// PartitionGone, and a claim reports that the group does not exist. Then the caller removes the name
// from the cache and looks it up again.
//
// # Epochs
//
// An id is valid only in the epoch of the database in which it was looked up (belfry.epoch, and
// docs/design.md). Each statement that uses an id has the epoch as a parameter. If the epoch
// differs, the statement treats all ids as missing. An ack needs no epoch, because it compares the
// UUID of the partition.
//
// pkg/engine/store and other packages below it import this package.
package names

import (
	"maps"
	"slices"
	"sync"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// maxNames bounds each table of the cache. A full table is cleared. Then each name costs one more
// query.
const maxNames = 200_000

// PartitionName names a partition.
type PartitionName struct{ Queue, Partition string }

// groupName is the key of a cached group: the target that a pop names. partition is "*" for the whole
// queue, or "=" and the name of one partition.
type groupName struct{ queue, group, partition string }

// groupNameOf returns the key under which the group of a pop is cached.
func groupNameOf(queueName string, req *queue.PopRequest) groupName {
	name := groupName{queue: queueName, group: req.Group, partition: "*"}
	if req.Partition != nil {
		name.partition = "=" + *req.Partition
	}
	return name
}

// cache holds the ids of one epoch. It is safe for concurrent use.
type cache struct {
	mu     sync.RWMutex
	epoch  queue.Epoch // zero before the first look-up
	byName map[PartitionName]*queue.Partition
	byKey  map[int64]*queue.Partition
	byID   map[queue.ID]*queue.Partition
	groups map[groupName]queue.Target
	// groupsOf are the groups that were looked up, by queue. Only these groups can have waiting requests
	// on this instance. groupCount is the number of groups in groupsOf. olderGroupsOf is the table before
	// the last clearing. The cache keeps it because a request may have looked up its group just before the
	// clearing.
	groupsOf, olderGroupsOf map[int64]map[int64]struct{}
	groupCount              int
}

func newCache() *cache {
	return &cache{
		byName: map[PartitionName]*queue.Partition{}, byKey: map[int64]*queue.Partition{},
		byID: map[queue.ID]*queue.Partition{}, groups: map[groupName]queue.Target{},
		groupsOf: map[int64]map[int64]struct{}{},
	}
}

func (c *cache) clearPartitionsLocked() {
	clear(c.byName)
	clear(c.byKey)
	clear(c.byID)
}

func (c *cache) clearGroupsLocked() {
	clear(c.groups)
	c.olderGroupsOf, c.groupsOf, c.groupCount = c.groupsOf, map[int64]map[int64]struct{}{}, 0
}

// enterLocked clears the cache if epoch is new. changed is false for the first epoch.
func (c *cache) enterLocked(epoch queue.Epoch) (changed bool) {
	if epoch == c.epoch {
		return false
	}
	changed = c.epoch != 0
	c.epoch = epoch
	c.clearPartitionsLocked()
	c.clearGroupsLocked()
	return changed
}

// enter locks the cache and calls enterLocked.
func (c *cache) enter(epoch queue.Epoch) (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.enterLocked(epoch)
}

// add caches partitions. One statement found all of them, so they belong to one epoch.
func (c *cache) add(found []*queue.Partition) (epochChanged bool) {
	if len(found) == 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	epochChanged = c.enterLocked(found[0].Epoch)
	if len(c.byKey)+len(found) > maxNames {
		c.clearPartitionsLocked()
	}
	for _, p := range found {
		c.byName[PartitionName{p.Queue, p.Name}] = p
		c.byKey[p.Key] = p
		c.byID[p.ID] = p
	}
	return epochChanged
}

// forget removes partitions that do not exist any more, unless they were looked up again meanwhile.
func (c *cache) forget(deleted []*queue.Partition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range deleted {
		if name := (PartitionName{p.Queue, p.Name}); c.byName[name] == p {
			delete(c.byName, name)
			delete(c.byKey, p.Key)
			delete(c.byID, p.ID)
		}
	}
}

// remembered copies the wanted partitions in table into found, and returns the missing keys.
func remembered[K comparable](
	c *cache, wanted []K, found map[K]*queue.Partition, table func(*cache) map[K]*queue.Partition,
) (missing []K) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, key := range wanted {
		if found[key] != nil {
			continue
		}
		if p := table(c)[key]; p != nil {
			found[key] = p
		} else {
			missing = append(missing, key)
		}
	}
	return missing
}

func (c *cache) group(name groupName) (queue.Target, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	target, ok := c.groups[name]
	return target, ok
}

// addGroup caches a group.
func (c *cache) addGroup(name groupName, target queue.Target) (epochChanged bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	epochChanged = c.enterLocked(target.Epoch)
	if len(c.groups) >= maxNames {
		clear(c.groups)
	}
	c.groups[name] = target
	return epochChanged
}

// addGroupOf records that a group belongs to a queue. If the table is full, addGroupOf clears it first.
// Then overflow is true, and every waiting request must look up its group again.
func (c *cache) addGroupOf(queueKey, group int64) (overflow bool) {
	c.mu.RLock()
	_, known := c.groupsOf[queueKey][group]
	c.mu.RUnlock()
	if known {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if overflow = c.groupCount >= maxNames; overflow {
		c.clearGroupsLocked()
	}
	groups := c.groupsOf[queueKey]
	if groups == nil {
		groups = map[int64]struct{}{}
		c.groupsOf[queueKey] = groups
	}
	if _, known := groups[group]; !known {
		groups[group] = struct{}{}
		c.groupCount++
	}
	return overflow
}

// groupsOfQueue returns the groups of a queue that this instance has looked up.
func (c *cache) groupsOfQueue(queueKey int64) []int64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	groups := slices.Collect(maps.Keys(c.groupsOf[queueKey]))
	for group := range c.olderGroupsOf[queueKey] {
		if _, again := c.groupsOf[queueKey][group]; !again {
			groups = append(groups, group)
		}
	}
	return groups
}

// queueOf returns the queue of a partition.
func (c *cache) queueOf(partition int64) (queueKey int64, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	p, ok := c.byKey[partition]
	if !ok {
		return 0, false
	}
	return p.QueueKey, true
}

// forgetGroup removes a group that does not exist any more, unless it was looked up again
// meanwhile.
func (c *cache) forgetGroup(name groupName, deleted queue.Target) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.groups[name] == deleted {
		delete(c.groups, name)
	}
}
