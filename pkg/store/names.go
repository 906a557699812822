package store

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// maxNames bounds each of the name tables. A full table is emptied: the next
// request of each name costs one look-up, and nothing else changes.
const maxNames = 200_000

type laneName struct{ queue, partition string }

// groupName is a group as a pop names it. partition is "*" plus nothing for the
// whole queue, "=" plus the name for one partition.
type groupName struct{ queue, group, partition string }

// names remembers what hardly changes: ids by name, in the latest life of the database
// that anything was looked up in. That something was deleted, or that another life has
// begun, is noticed by the statements that use the id (a push raises BF001, a claim
// reports that the group is gone), never here.
type names struct {
	mu     sync.RWMutex
	life   queue.Epoch // zero before the first look-up
	byName map[laneName]*queue.Partition
	byKey  map[int64]*queue.Partition
	byID   map[queue.ID]*queue.Partition
	groups map[groupName]queue.Target
}

func newNames() *names {
	n := &names{}
	n.clearLanesLocked()
	n.clearGroupsLocked()
	return n
}

func (n *names) clearLanesLocked() {
	n.byName = map[laneName]*queue.Partition{}
	n.byKey = map[int64]*queue.Partition{}
	n.byID = map[queue.ID]*queue.Partition{}
}

func (n *names) clearGroupsLocked() { n.groups = map[groupName]queue.Target{} }

// liveLocked forgets everything when life is another one than before, and reports
// whether it has.
func (n *names) liveLocked(life queue.Epoch) (reborn bool) {
	if life == n.life {
		return false
	}
	reborn = n.life != 0
	n.life = life
	n.clearLanesLocked()
	n.clearGroupsLocked()
	return reborn
}

// add remembers partitions that one statement found, and so in one life. reborn: what
// was remembered before belonged to another one.
func (n *names) add(found []*queue.Partition) (reborn bool) {
	if len(found) == 0 {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	reborn = n.liveLocked(found[0].Epoch)
	if len(n.byKey)+len(found) > maxNames {
		n.clearLanesLocked()
	}
	for _, p := range found {
		n.byName[laneName{p.Queue, p.Name}] = p
		n.byKey[p.Key] = p
		n.byID[p.ID] = p
	}
	return reborn
}

// forget drops partitions that turned out to be gone, unless others have looked them up
// again since.
func (n *names) forget(gone []*queue.Partition) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range gone {
		if name := (laneName{p.Queue, p.Name}); n.byName[name] == p {
			delete(n.byName, name)
			delete(n.byKey, p.Key)
			delete(n.byID, p.ID)
		}
	}
}

func (n *names) group(name groupName) (queue.Target, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	keys, ok := n.groups[name]
	return keys, ok
}

// addGroup remembers a group; reborn is as with add.
func (n *names) addGroup(name groupName, keys queue.Target) (reborn bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	reborn = n.liveLocked(keys.Epoch)
	if len(n.groups) >= maxNames {
		n.clearGroupsLocked()
	}
	n.groups[name] = keys
	return reborn
}

// forgetGroup drops a group that turned out to be gone, unless others have looked it up
// again since.
func (n *names) forgetGroup(name groupName, gone queue.Target) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.groups[name] == gone {
		delete(n.groups, name)
	}
}

// open returns the partitions of the given names, creating what does not exist.
func (s *Store) open(ctx context.Context, wanted []laneName) (map[laneName]*queue.Partition, error) {
	found := make(map[laneName]*queue.Partition, len(wanted))
	// Names of a queue that is being deleted this instant are absent from the
	// answer; asked again, they belong to a new queue.
	for range 5 {
		missing := s.known(wanted, found)
		if len(missing) == 0 {
			return found, nil
		}
		queues, partitions := make([]string, len(missing)), make([]string, len(missing))
		for i, name := range missing {
			queues[i], partitions[i] = name.queue, name.partition
			if err := s.joining.wait(ctx, name.queue); err != nil {
				return nil, err
			}
		}
		options := s.defaults.Options()
		rows, err := s.pool.Query(ctx, sqlOpenPartitions, queues, partitions, options.LeaseTime, options.RetryLimit)
		if err != nil {
			return nil, fmt.Errorf("opening %d partitions: %w", len(missing), err)
		}
		born := map[laneName]bool{} // with its queue?
		opened, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*queue.Partition, error) {
			p := &queue.Partition{}
			var isNew, queueIsNew bool
			err := row.Scan(&p.Queue, &p.Name, &p.QueueKey, &p.Key, (*[16]byte)(&p.ID), &p.Sealed, &p.Bounded, &isNew, &queueIsNew, &p.Epoch)
			if isNew {
				born[laneName{p.Queue, p.Name}] = queueIsNew
			}
			return p, err
		})
		if err != nil {
			return nil, fmt.Errorf("opening %d partitions: %w", len(missing), err)
		}
		s.reborn(s.names.add(opened))
		for _, p := range opened {
			found[laneName{p.Queue, p.Name}] = p
		}
		for name, newQueue := range born {
			if newQueue {
				name.partition = ""
			}
			s.events.Created(name.queue, name.partition, events.Here)
		}
	}
	return nil, fmt.Errorf("opening partitions of a queue that is being deleted again and again: %v", wanted[0].queue)
}

// known moves what is remembered into found and returns what is not.
func (s *Store) known(wanted []laneName, found map[laneName]*queue.Partition) (missing []laneName) {
	s.names.mu.RLock()
	defer s.names.mu.RUnlock()
	for _, name := range wanted {
		if found[name] != nil {
			continue
		}
		if p := s.names.byName[name]; p != nil {
			found[name] = p
		} else {
			missing = append(missing, name)
		}
	}
	return missing
}

// byKeys returns the partitions of the given database ids, in life, that exist.
func (s *Store) byKeys(ctx context.Context, life queue.Epoch, keys []int64) (map[int64]*queue.Partition, error) {
	found, err := lookUp(ctx, s, keys, func(n *names) map[int64]*queue.Partition {
		if n.life != life {
			return nil
		}
		return n.byKey
	},
		func(p *queue.Partition) int64 { return p.Key },
		func(missing []int64) (any, any) { return missing, [][16]byte{} })
	maps.DeleteFunc(found, func(_ int64, p *queue.Partition) bool { return p.Epoch != life })
	return found, err
}

// byIDs returns the partitions of the given wire ids that exist.
func (s *Store) byIDs(ctx context.Context, ids []queue.ID) (map[queue.ID]*queue.Partition, error) {
	return lookUp(ctx, s, ids, func(n *names) map[queue.ID]*queue.Partition { return n.byID },
		func(p *queue.Partition) queue.ID { return p.ID },
		func(missing []queue.ID) (any, any) { return []int64{}, rawIDs(missing) })
}

func lookUp[K comparable](ctx context.Context, s *Store, wanted []K,
	table func(*names) map[K]*queue.Partition, keyOf func(*queue.Partition) K, args func([]K) (any, any),
) (map[K]*queue.Partition, error) {
	found := make(map[K]*queue.Partition, len(wanted))
	var missing []K
	s.names.mu.RLock()
	for _, key := range wanted {
		if p := table(s.names)[key]; p != nil {
			found[key] = p
		} else {
			missing = append(missing, key)
		}
	}
	s.names.mu.RUnlock()
	if len(missing) == 0 {
		return found, nil
	}
	keys, ids := args(missing)
	rows, err := s.pool.Query(ctx, sqlFindPartitions, keys, ids)
	if err != nil {
		return nil, fmt.Errorf("looking up %d partitions: %w", len(missing), err)
	}
	fresh, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*queue.Partition, error) {
		p := &queue.Partition{}
		err := row.Scan(&p.Key, (*[16]byte)(&p.ID), &p.Name, &p.QueueKey, &p.Queue, &p.Sealed, &p.Bounded, &p.Epoch)
		return p, err
	})
	if err != nil {
		return nil, fmt.Errorf("looking up %d partitions: %w", len(missing), err)
	}
	s.reborn(s.names.add(fresh))
	for _, p := range fresh {
		found[keyOf(p)] = p
	}
	return found, nil
}

// ended says whether another life than life has begun; if so, nothing is remembered of
// it. Where the database does not say, it has not.
func (s *Store) ended(ctx context.Context, life queue.Epoch) bool {
	var now queue.Epoch
	if err := s.pool.QueryRow(ctx, sqlLife).Scan(&now); err != nil {
		return false // what comes next will meet the same
	}
	s.names.mu.Lock()
	reborn := s.names.liveLocked(now)
	s.names.mu.Unlock()
	s.reborn(reborn)
	return now != life
}

// reborn tells everybody who waits to look, if so: the ids that they wait for may stand
// for something else.
func (s *Store) reborn(so bool) {
	if so {
		s.log.Info("Postgres was started again, or the tables were put back or made anew: nothing is remembered of them")
		s.resync("another life of the database")
	}
}

// rawIDs gives ids the type the driver encodes in binary.
func rawIDs(ids []queue.ID) [][16]byte {
	raw := make([][16]byte, len(ids))
	for i, id := range ids {
		raw[i] = id
	}
	return raw
}
