package main

// data makes 10,000 queues with 10 partitions each, and gives 100,000 further partitions to the queue wide. Each partition has 2
// messages. In each fifth partition the groups are behind. 125 queues have a history of one hour, which is what one instance writes at most.
const data = `
INSERT INTO belfry.queue (name, namespace, task)
     SELECT 'queue-' || lpad(i::text, 5, '0'), 'namespace-' || i % 50, 'task-' || i % 200 FROM generate_series(1, 9999) i;
INSERT INTO belfry.queue (name, namespace, task) VALUES ('wide', 'namespace-0', 'task-0');
INSERT INTO belfry.consumer_group (queue_id, name, whole_queue) SELECT q.id, 'billing', true FROM belfry.queue q;
INSERT INTO belfry.consumer_group (queue_id, name, whole_queue) SELECT q.id, 'mail', true FROM belfry.queue q WHERE q.id % 2 = 0;
INSERT INTO belfry.partition (queue_id, name, last_seq, last_push_at)
     SELECT q.id, 'p' || i, 2, now() FROM generate_series(1, 10) i, belfry.queue q;
INSERT INTO belfry.partition (queue_id, name, last_seq, last_push_at)
     SELECT q.id, 'customer-' || lpad(i::text, 6, '0'), 2, now() FROM generate_series(1, 100000) i, belfry.queue q WHERE q.name = 'wide';
INSERT INTO belfry.message (partition_id, seq, created_at, id, transaction_id, payload)
     SELECT p.id, s, now() - make_interval(secs => 600 - s), gen_random_uuid(), 't' || s, '{"order": 1}' FROM belfry.partition p, generate_series(1, 2) s;
INSERT INTO belfry.cursor (partition_id, group_id, committed, ready_at)
     SELECT p.id, g.id, CASE WHEN p.id % 5 = 0 THEN 1 ELSE 2 END, CASE WHEN p.id % 5 = 0 THEN now() END
       FROM belfry.partition p JOIN belfry.consumer_group g ON g.queue_id = p.queue_id;
INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts, error)
     SELECT p.id, 1, g.id, 8, 'timeout after ' || p.id || ' ms' FROM (SELECT * FROM belfry.partition p ORDER BY p.id LIMIT 50000) p
       JOIN belfry.consumer_group g ON g.queue_id = p.queue_id AND g.name = 'billing';
INSERT INTO belfry.history
     SELECT (json_populate_record(NULL::belfry.history, json_object_agg(c.column_name,
              CASE c.column_name
                WHEN 'at' THEN to_json(m.at) WHEN 'minutes' THEN '1' WHEN 'instance' THEN to_json(m.instance)
                WHEN 'queue' THEN to_json('queue-' || lpad(q::text, 5, '0')) WHEN 'consumer_group' THEN to_json(g)
                WHEN 'latency' THEN '[]' WHEN 'parked' THEN 'null'
                WHEN 'oldest_at' THEN to_json(m.at) WHEN 'counted_at' THEN to_json(m.at) ELSE '7' END::json))).*
       FROM (SELECT date_trunc('minute', now()) - make_interval(mins => i) AS at, '00000000-0000-0000-0000-000000000001'::uuid AS instance
               FROM generate_series(1, 60) i) m,
            generate_series(1, 125) q, unnest(ARRAY['', 'billing']) g, information_schema.columns c
      WHERE c.table_schema = 'belfry' AND c.table_name = 'history'
      GROUP BY m.at, m.instance, q, g;
INSERT INTO belfry.history_instance
     SELECT date_trunc('minute', now()) - make_interval(mins => i), 1, '00000000-0000-0000-0000-000000000001', 'host', 6632, 7, 1, 1, 1, 1, 1, 1, 1, 1, 0
       FROM generate_series(1, 60) i`

// paths are the pages, and the requests of the searches.
var paths = []string{
	"/ui/",
	"/ui/queues",
	"/ui/queues?sort=pending",
	"/ui/queues?sort=dead",
	"/ui/queues?name=queue-09999",
	"/ui/queues?name=099",
	"/ui/queues?name=no-such-name",
	"/ui/queues?namespace=namespace-7&task=task-7",
	"/ui/groups",
	"/ui/groups?sort=dead",
	"/ui/groups?name=mail",
	"/ui/groups?queue=wide",
	"/ui/messages",
	"/ui/messages?q=wide",
	"/ui/dead",
	"/ui/dead?q=queue-00007",
	"/ui/dead?q=queue-00007&g=billing",
	"/ui/dispatcher",
	"/ui/history",
	"/ui/history?q=queue-00007",
	"/ui/system",
	"/ui/streams",
	"/ui/maintenance",
	"/ui/audit",
	"/ui/queue?q=wide",
	"/ui/queue?q=wide&order=name&from=customer-05",
	"/ui/queue?q=queue-09999",
	"/ui/group?q=wide&g=billing",
	"/ui/group?q=wide&g=billing&list=name",
	"/ui/group?q=queue-00010&g=mail",
	"/ui/options?q=wide",
	"/api/v1/queues?name=queue-09999",
	"/api/v1/queues?name=099&sort=backlog",
	"/api/v1/groups?name=mail&sort=oldest",
	"/api/v1/totals",
	"/ui/groups?sort=lag",
	"/ui/namespaces",
	"/ui/tasks?sort=lag",
	"/ui/queues?sort=failed",
	"/ui/partitions?q=wide&name=customer-099999",
	"/ui/partitions?q=wide&name=99",
	"/api/v1/resources/queues/wide/search?name=customer-05",
	"/api/v1/resources/queues/wide/search?name=no-such-name",
	"/api/v1/problems",
}
