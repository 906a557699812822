//go:build installed && !release

package main

// Shell code that prepares the state that a block assumes.
const (
	twoOrders   = `belfry push orders '{"id": 1}' --partition customer-7 && belfry push orders '{"id": 2}' --partition customer-7`
	oneOrder    = `belfry push orders '{"id": 3}' --partition customer-8`
	aDeadLetter = twoOrders + ` && m=$(belfry pop orders --group billing -o json) && belfry ack $(echo "$m" | jq -r '.[0] | "\(.partitionId) \(.transactionId)"') --group billing --status dlq`
	// exhaustedOrder blocks the partition customer-7 for the group billing.
	exhaustedOrder = twoOrders + ` && belfry queue configure orders --option retryLimit=0 && m=$(belfry pop orders --group billing --partition customer-7 --batch 1 -o json) &&
		belfry ack $(echo "$m" | jq -r '.[0] | "\(.partitionId) \(.transactionId)"') --group billing --status failed --error 'no stock'`
	// stored waits until the order of SQL is a message.
	stored = `belfry pop orders --group $(date +%N) --partition ada --wait 10s`
	// nextOrder pushes an order whose invoice does not exist.
	nextOrder = `psql -X -q "$DATABASE_URL" -c "WITH o AS (INSERT INTO orders (customer, total) VALUES ('bob', 5) RETURNING id)
		INSERT INTO belfry.inbox (queue, partition, payload) SELECT 'orders', 'bob', json_build_object('order', id, 'total', 5) FROM o"`

	foreignClient = "the client is a package of another project, in a registry that this test does not need"
)

// treatments has the blocks that do not simply run to their end.
var treatments = []treatment{
	{page: "README.md", part: "make run ", notRun: "make test would run this test"},
	{page: "README.md", part: "api/v1/pop/queue/orders", want: `"partition":"customer-7"`},
	{page: "README.md", part: "api/v1/ack", want: `"success":true`},

	{page: "docs/clients.md", part: "go get ", notRun: "it downloads the version on GitHub, and this is the version of the repository"},
	{page: "docs/clients.md", part: "client.Consume(", until: "customer-7 1"},
	{page: "docs/clients.md", part: "await fetch(`${api}/pop", until: "customer-6 2", before: `belfry push orders '{"id": 2}' --partition customer-6`},
	{page: "docs/clients.md", part: "from 'queen-mq'", notRun: foreignClient},
	{page: "docs/clients.md", part: "urllib", until: "customer-8 3", before: oneOrder},
	{page: "docs/clients.md", part: "from queen import", notRun: foreignClient},
	{page: "docs/clients.md", part: "<?php", until: "customer-5 5", before: `belfry push orders '{"id": 5}' --partition customer-5`},
	{page: "docs/clients.md", part: "httplib::Client", until: "customer-4 6", before: `belfry push orders '{"id": 6}' --partition customer-4`},
	{page: "docs/clients.md", part: "while true", until: "customer-9 4", before: `belfry push orders '{"id": 4}' --partition customer-9`},

	{page: "docs/flow.md", part: "belfry push orders", want: "rateLimit={burst=20 messages=100 per=1s}"},
	{page: "docs/flow.md", part: "curl", want: `"changed":false`},
	{page: "docs/flow.md", part: "package main", want: "burst: 100"},
	{
		page: "docs/flow.md", part: "group breaker", want: "billing yes yes",
		before: "belfry group limit billing orders --breaker-failures 5 && { belfry pop orders --group billing --auto-ack || [ $? = 4 ]; }",
	},
	{page: "docs/flow.md", part: "group blocked", want: "no stock", before: exhaustedOrder},

	{page: "docs/coming-from/pg-boss.md", part: "delaySeconds: 1", want: "mail to ada"},
	{page: "docs/coming-from/queen.md", part: "api/v1/push", want: `"partition":"customer-7"`},
	{page: "docs/coming-from/rabbitmq.md", part: "--group shipping", want: "customer-7"},
	{page: "docs/coming-from/river.md", part: "belfry.push", want: "order-1"},
	{page: "docs/coming-from/sidekiq-celery.md", part: "retryLimit=25", want: `"function":"welcome"`},
	{page: "docs/coming-from/sqs.md", part: "api/v1/ack", want: `"success":true`},

	{page: "docs/concepts.md", part: "/seek", before: twoOrders + " && belfry pop orders --group billing", want: `"success":true`},
	{page: "docs/concepts.md", part: "/dlq/redrive", before: aDeadLetter, want: `"redriven":1`},
	{page: "docs/concepts.md", part: "/transaction", want: `"success":true`},
	{page: "docs/concepts.md", part: "/configure", want: `"leaseTime":60`},

	{page: "docs/design.md", notRun: "it reads the repository, and needs no server"},

	{page: "docs/events.md", part: "api/v1/events", until: "event: snapshot"},
	{page: "docs/events.md", part: "api/v1/sse", until: `"data":{"id":1}`, before: twoOrders},

	{page: "docs/high-availability.md", part: "./test/ha -args -kills 0", notRun: "it takes minutes, and .ci/run has a shorter one"},
	{page: "docs/high-availability.md", part: "-kills 10", notRun: "it takes minutes, and .ci/run has a shorter one"},
	{page: "docs/high-availability.md", part: "instances: 3", notRun: "it is a part of a cluster of CloudNativePG"},

	{page: "docs/install.md", notRun: "it installs a release, and the tests of the packages install what make release builds"},

	{page: "docs/kubernetes.md", part: "kubectl apply", notRun: "it needs Kubernetes"},
	{page: "docs/kubernetes.md", part: "secretKeyRef", notRun: "it has values of the chart"},
	{page: "docs/kubernetes.md", part: "belfry token create", notRun: "TestCommandsOfTheDocumentation runs it with a secret"},

	{page: "docs/operations.md", part: shopURL, until: serving},
	{page: "docs/operations.md", part: "openssl req", until: serving},
	{page: "docs/operations.md", part: "--cacert", want: `"status":"healthy"`},
	{page: "docs/operations.md", part: "livenessProbe", notRun: "it is a part of a pod of Kubernetes"},

	{page: "docs/promises.md", part: "./test/chaos", notRun: "it takes three minutes, and .ci/run has a shorter one"},

	{page: "docs/security.md", part: "belfry token create", want: "eyJ"},

	{page: "docs/sql.md", part: "CREATE ROLE shop", before: `psql -X -q "$DATABASE_URL" -c 'DROP ROLE IF EXISTS shop, billing_app'`, want: "orders.*"},
	{page: "docs/sql.md", part: "PreparedStatement", notRun: "the driver of Postgres for Java is not installed"},
	{page: "docs/sql.md", part: "Order.transaction", notRun: "Rails is not installed"},
	{page: "docs/sql.md", part: "belfry.pop('orders', 'billing', 10);\nINSERT", before: stored, want: "ack"},
	{page: "docs/sql.md", part: "partitions => 20", before: nextOrder, want: "ack"},
	{page: "docs/sql.md", part: "select.select", before: nextOrder, until: "invoice for order"},
	{page: "docs/sql.md", part: "SELECT belfry.schedule(", want: "daily-report"},

	{page: "docs/tracing.md", notRun: "it needs a collector, and the tests of traces have one"},

	{page: "docs/tutorial.md", part: "belfry dev", until: "Ctrl-C stops"},
	{page: "docs/tutorial.md", part: "node worker.mjs", until: "waiting", stays: true},
	{page: "docs/tutorial.md", part: "belfry messages list", before: "belfry pop orders --group probe --wait 10s && belfry group delete probe --yes"},
}
