package integration_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	pushPath      = "/api/v1/push"
	ackPath       = "/api/v1/ack"
	batchPath     = "/api/v1/ack/batch"
	configurePath = "/api/v1/configure"
	extendPath    = "/api/v1/lease/0198f9a0-6f1c-7b52-8f6b-2f6c3a1d4e5f/extend"
)

// each255 is a name of the largest length, in bytes: 127 of its characters take two.
var each255 = strings.Repeat("é", 127) + "x"

// refusedBodiesOf has refused bodies and their error texts, by path.
var refusedBodiesOf = map[string]map[string]string{
	pushPath: {
		`{}`:                         "items array is required",
		`{"items":null}`:             "items array is required",
		`{"items":{}}`:               "items array is required",
		`{"items":"x"}`:              "items array is required",
		`[]`:                         "the body must be a JSON object",
		`"x"`:                        "the body must be a JSON object",
		`null`:                       "the body must be a JSON object",
		`{"items":[{}]}`:             "items[0].queue is missing",
		`{"items":[{"queue":null}]}`: "items[0].queue must be a string",
		`{"items":[{"queue":7}]}`:    "items[0].queue must be a string",
		`{"items":[{"queue":"no"},{"payload":1}]}`:                                      "items[1].queue is missing",
		`{"items":[{"queue":"no"},5]}`:                                                  "items[1] must be an object",
		`{"items":[{"queue":"no","partition":null}]}`:                                   "items[0].partition must be a string",
		`{"items":[{"queue":"no","partition":1}]}`:                                      "items[0].partition must be a string",
		`{"items":[{"queue":"no","transactionId":null}]}`:                               "items[0].transactionId must be a string",
		`{"items":[{"queue":"no","transactionId":[]}]}`:                                 "items[0].transactionId must be a string",
		`{"items":[{"queue":"no","traceId":null}]}`:                                     "items[0].traceId must be a string",
		`{"items":[{"queue":"no","traceId":true}]}`:                                     "items[0].traceId must be a string",
		`{"items":[{"queue":"no"},{"queue":"no","traceId":"nope"}]}`:                    `items[1].traceId: "nope" is not a UUID`,
		`{"items":[{"queue":"no","partition":"a\u0000b"}]}`:                             "items[0].partition contains a NUL character: remove it",
		`{"items":[{"queue":"no\u0000"}]}`:                                              "items[0].queue contains a NUL character: remove it",
		`{"items":[{"queue":"no","transactionId":"\u0000"}]}`:                           "items[0].transactionId contains a NUL character: remove it",
		`{"items":[{"queue":"` + each255 + `x"}]}`:                                      "items[0].queue is 256 bytes long: at most 255 are allowed",
		`{"items":[{"queue":"no","partition":"` + each255 + `x"}]}`:                     "items[0].partition is 256 bytes long: at most 255 are allowed",
		`{"items":[{"queue":"no","transactionId":"` + strings.Repeat("é", 256) + `"}]}`: "items[0].transactionId is 256 characters long: at most 255 are allowed",
	},
	ackPath: {
		`{}`:                                    "transactionId is required",
		`{"transactionId":1,"partitionId":"x"}`: "transactionId is required",
		`{"transactionId":null,"partitionId":"x"}`: "transactionId is required",
		`{"transactionId":"x"}`:                    "partitionId is required to ensure message uniqueness",
		`{"transactionId":"x","partitionId":null}`: "partitionId is required to ensure message uniqueness",
		`[]`: "the body must be a JSON object",
	},
	batchPath: {
		`{}`:                       "acknowledgments array is required",
		`{"acknowledgments":null}`: "acknowledgments array is required",
		`{"acknowledgments":{}}`:   "acknowledgments array is required",
		`{"acknowledgments":[7]}`:  "Each acknowledgment must have a valid transactionId string",
		`{"acknowledgments":[{"partitionId":"x"}]}`:                    "Each acknowledgment must have a valid transactionId string",
		`{"acknowledgments":[{"transactionId":7,"partitionId":"x"}]}`:  "Each acknowledgment must have a valid transactionId string",
		`{"acknowledgments":[{"transactionId":"x"}]}`:                  "Each acknowledgment must have a valid partitionId string to ensure message uniqueness",
		`{"acknowledgments":[{"transactionId":"x","partitionId":[]}]}`: "Each acknowledgment must have a valid partitionId string to ensure message uniqueness",
	},
	configurePath: {
		`{}`:                           "queue is required",
		`{"queue":null}`:               "queue is required",
		`{"queue":["no"]}`:             "queue is required",
		`{"queue":"` + each255 + `x"}`: "queue is 256 bytes long: at most 255 are allowed",
		`{"queue":"no","namespace":"` + each255 + `x"}`:    "namespace is 256 bytes long: at most 255 are allowed",
		`{"queue":"no","task":"` + each255 + `x"}`:         "task is 256 bytes long: at most 255 are allowed",
		`{"queue":"no\u0000"}`:                             "queue contains a NUL character: remove it",
		`{"queue":"no","namespace":"\u0000"}`:              "namespace contains a NUL character: remove it",
		`{"queue":"no","options":[]}`:                      "options must be an object, not []",
		`{"queue":"no","options":{"leaseTime":"60"}}`:      `options.leaseTime must be a whole number, not "60"`,
		`{"queue":"no","options":{"retryLimit":1.5}}`:      "options.retryLimit must be a whole number, not 1.5",
		`{"queue":"no","options":{"ttl":1e300}}`:           "options.ttl must be a whole number, not 1e300",
		`{"queue":"no","options":{"windowBuffer":-1}}`:     "options.windowBuffer is -1: it must be between 0 and 2147483647",
		`{"queue":"no","options":{"maxSize":2147483648}}`:  "options.maxSize is 2147483648: it must be between 0 and 2147483647",
		`{"queue":"no","options":{"retentionEnabled":1}}`:  "options.retentionEnabled must be true or false, not 1",
		`{"queue":"no","options":{"deadLetterQueue":"x"}}`: `options.deadLetterQueue must be true or false, not "x"`,
	},
	extendPath: {
		`[]`:                 "the body must be a JSON object",
		`{"seconds":"60"}`:   `seconds must be a whole number, not "60"`,
		`{"seconds":0.5}`:    "seconds must be a whole number, not 0.5",
		`{"seconds":0}`:      "seconds is 0: it must be between 1 and 604800",
		`{"seconds":604801}`: "seconds is 604801: it must be between 1 and 604800",
	},
}

// refusedTargets has refused GET requests and their error texts.
var refusedTargets = map[string]string{
	"/api/v1/pop":                                        "namespace or task is required: /api/v1/pop?namespace=...&task=..., or name a queue: /api/v1/pop/queue/NAME",
	"/api/v1/pop?namespace=&wait=true":                   "namespace or task is required: /api/v1/pop?namespace=...&task=..., or name a queue: /api/v1/pop/queue/NAME",
	"/api/v1/pop/queue/" + each255 + "x":                 "the queue in the path is 256 bytes long: at most 255 are allowed",
	"/api/v1/pop/queue/q/partition/" + each255 + "x":     "the partition in the path is 256 bytes long: at most 255 are allowed",
	"/api/v1/pop/queue/a%00b":                            "the queue in the path contains a NUL character: remove it",
	"/api/v1/pop/queue/%ff":                              "the queue in the path is not UTF-8",
	"/api/v1/pop/queue/q/partition/%ff":                  "the partition in the path is not UTF-8",
	"/api/v1/pop/queue/q?consumerGroup=" + each255 + "x": "consumerGroup is 256 bytes long: at most 255 are allowed",
	"/api/v1/pop/queue/q?consumerGroup=%00":              "consumerGroup contains a NUL character: remove it",
	"/api/v1/pop/queue/q?consumerGroup=%ff":              "consumerGroup is not UTF-8",
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	s := start(t)
	t.Run("each", func(t *testing.T) { refusals(t, s) }) // returns after all subtests
	require.False(t, s.client(t).storedQueue("no"), "a refused call stores nothing")
}

func refusals(t *testing.T, s *server) {
	t.Helper()
	for path, bodies := range refusedBodiesOf {
		for body, text := range bodies {
			t.Run(path+" "+text, func(t *testing.T) {
				t.Parallel()
				ask[any](s.client(t), post(path, body)).refused(text)
			})
		}
	}
	for target, text := range refusedTargets {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			ask[any](s.client(t), get(target)).refused(text)
		})
	}
	for name, run := range map[string]func(t *testing.T, c client){
		"one bad item refuses the others": refusedWithOthers,
		"bodies that are not text":        refusedBodies,
		"names of full length":            namesOfFullLength,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, s.client(t))
		})
	}
}

// A call is stored completely or not at all.
func refusedWithOthers(t *testing.T, c client) {
	c.pushIDs("q", "", "before")
	c.push(item{Queue: "q", TransactionID: "with"}, item{Queue: "q", TransactionID: "bad", TraceID: "not-a-uuid"}).
		refused(`items[1].traceId: "not-a-uuid" is not a UUID`)
	ask[any](c, post(pushPath, `{"items":[{"queue":"q","transactionId":"cut"},{"queue":"q"}`))
	require.Equal(t, []string{"before"}, c.popIDs("q", "batch=10&consumerGroup=g"))
}

func TestMalformedJSON(t *testing.T) {
	t.Parallel()
	s := start(t)
	for body, place := range map[string]string{
		`{"items":[}`:                            "byte 11 (line 1, column 11)",
		`{"items":[]`:                            "byte 12 (line 1, column 12)",
		`{"items":[]} x`:                         "byte 14 (line 1, column 14)",
		`{"items":[]}{}`:                         "byte 13 (line 1, column 13)",
		"{\n \"é\": 1,\n \"ü\" 2}":               "byte 19 (line 3, column 6)",
		`{"items":[{"queue":"q",}]}`:             "byte 24 (line 1, column 24)",
		`{'items':[]}`:                           "byte 2 (line 1, column 2)",
		`{"items":[{"queue":"q","payload":01}]}`: "byte 35 (line 1, column 35)",
		"{\"items\":[{\"queue\":\"a\tb\"}]}":     "byte 22 (line 1, column 22)",
		`{"items":[{"queue":"\x"}]}`:             "byte 21 (line 1, column 21)",
		`nul`:                                    "byte 4 (line 1, column 4)",
		` `:                                      "byte 2 (line 1, column 2)",
	} {
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			for _, path := range []string{pushPath, ackPath, batchPath, configurePath, extendPath} {
				got := ask[any](s.client(t), post(path, body))
				require.Equal(t, http.StatusBadRequest, got.Status, path)
				require.Regexp(t, "^Invalid JSON: ", got.failure, path)
				require.Contains(t, got.failure, place, path)
			}
		})
	}
}

func refusedBodies(_ *testing.T, c client) {
	for _, path := range []string{pushPath, ackPath, batchPath, configurePath, extendPath} {
		ask[any](c, post(path, "")).refused("Empty request body")
		ask[any](c, post(path, "{\"items\":[{\"queue\":\"a\xffb\"}]}")).refused("Invalid JSON: byte 22 is not UTF-8")
	}
}

func namesOfFullLength(t *testing.T, c client) {
	require.Len(t, each255, 255)
	transaction := strings.Repeat("é", 255)
	c.push(item{Queue: each255, Partition: each255, TransactionID: transaction}).ok(http.StatusCreated)
	got := c.popPartition(each255, each255, "consumerGroup="+each255).ok(http.StatusOK)
	require.Equal(t, []string{transaction}, got.ids())
	require.Equal(t, each255, got.ConsumerGroup)
	require.True(t, c.ackBatch(each255, got.ack("completed")...).ok(http.StatusOK)[0].Success)
	require.Equal(t, each255, c.configure(each255, nil).ok(http.StatusOK).Queue)
	require.True(t, c.deleteQueue(each255).ok(http.StatusOK).Existed)
}

// HTTP clients remove . and .. from a path before they send it, also in their percent-encoded form. So a queue, partition or group
// of such a name could be filled and not popped. No door creates one.
func TestNamesThatClientsCannotSendAreRefused(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	conn := producer(t, c.dsn)
	execute(t, conn, `CREATE TABLE doc (id text PRIMARY KEY); SELECT belfry.attach('doc', 'docs', key => '{id}')`)
	c.pushIDs("q", "p", "1")
	for _, name := range []string{".", ".."} {
		text := fmt.Sprintf("%q, which clients remove from the path of a request: choose another name", name)
		for path, bodies := range map[string][]string{
			"/api/v1/push":        {`{"items":[{"queue":"q"},{"queue":"%s"}]}`, `{"items":[{"queue":"q","partition":"%s"}]}`},
			"/api/v1/transaction": {`{"operations":[{"type":"push","items":[{"queue":"%s"}]}]}`, `{"operations":[{"type":"push","queue":"q","partition":"%s"}]}`},
			"/streams/v1/cycle":   {`{"query_id":"a","partition_id":"b","push_items":[{"queue":"%s"}]}`},
			"/streams/v1/queries": {`{"name":"n","source_queue":"%s","config_hash":"1"}`},
			configurePath:         {`{"queue":"%s"}`},
		} {
			for _, body := range bodies {
				got := ask[any](c.loose(), post(path, fmt.Sprintf(body, name)))
				require.Equal(t, http.StatusBadRequest, got.Status, body)
				require.Contains(t, got.failure, text)
			}
		}
		require.Contains(t, ask[any](c, get("/api/v1/pop/queue/q?consumerGroup="+name)).failure, text)

		for _, statement := range []string{
			`SELECT belfry.push('%s', '1')`, `SELECT belfry.push('q', '1', partition => '%s')`, `SELECT belfry.push_many('%s', ARRAY['1']::json[])`,
			`SELECT belfry.push_many('q', ARRAY['1']::json[], partitions => ARRAY['%s'])`, `SELECT belfry.subscribe('q', '%s')`,
			`SELECT belfry.pop('q', '%s')`, `SELECT belfry.attach('doc', '%s')`,
		} {
			require.Equal(t, "22023", refused(t, conn, fmt.Sprintf(statement, name)), statement)
		}
		execute(t, conn, `INSERT INTO belfry.inbox (queue, partition, payload) VALUES ($1, 'p', '1'), ('q', $1, '2')`, name)
		execute(t, conn, `INSERT INTO doc VALUES ($1)`, name)
	}
	until(t, "all rows are moved", func() (moved bool) {
		c.scan(t, `SELECT NOT EXISTS (SELECT FROM belfry.inbox)`, nil, &moved)
		return moved
	})
	var rejected, unreachable, attached int
	c.scan(t, `SELECT count(*) FROM belfry.inbox_rejected WHERE reason LIKE '%which clients remove from the path%'`, nil, &rejected)
	c.scan(t, `SELECT count(*) FROM (SELECT name FROM belfry.queue UNION SELECT name FROM belfry.partition UNION SELECT name FROM belfry.consumer_group) AS all_names
		WHERE name IN ('.', '..')`, nil, &unreachable)
	c.scan(t, `SELECT count(*) FROM belfry.partition WHERE name LIKE 'md5:%'`, nil, &attached)
	require.Equal(t, []int{4, 0, 2}, []int{rejected, unreachable, attached})
}
