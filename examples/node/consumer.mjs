// A consumer for Node 20 without dependencies. It pops the queue `orders` as the group `mailer` and prints the
// orders.
import { setTimeout as pause } from 'node:timers/promises'

const api = `${process.env.BELFRY_URL ?? 'http://localhost:6632'}/api/v1`
const queue = 'orders'
const group = 'mailer'
const patience = 30_000 // the milliseconds that a pop waits for a message

// SIGINT and SIGTERM end the waiting pop. The program first finishes the message that it handles.
const stopping = new AbortController()
for (const name of ['SIGINT', 'SIGTERM']) process.once(name, () => stopping.abort())
const stopped = stopping.signal

async function handle(order) {
  if (!order.customer) throw new Error(`order ${order.id} has no customer`)
  console.log(`mail to ${order.customer}: order ${order.id}`)
}

// pop waits for messages of one partition and returns them in order. It returns `[]` if no message arrived in time.
async function pop() {
  const query = new URLSearchParams({ consumerGroup: group, batch: 10, wait: true, timeout: patience })
  const answer = await fetch(`${api}/pop/queue/${encodeURIComponent(queue)}?${query}`, {
    signal: AbortSignal.any([stopped, AbortSignal.timeout(patience + 10_000)]), // also ends a pop on a dead connection
  })
  if (answer.status === 204) return []
  if (!answer.ok) throw new Error(`the pop was answered with ${answer.status}: ${await answer.text()}`)
  return (await answer.json()).messages
}

// ack sends the results of messages. A repeated ack changes nothing, so the program may send it again.
async function ack(acknowledgments) {
  const answer = await fetch(`${api}/ack/batch`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ consumerGroup: group, acknowledgments }),
    signal: AbortSignal.timeout(10_000),
  })
  if (!answer.ok) throw new Error(`the ack was answered with ${answer.status}: ${await answer.text()}`)
  for (const { success, transactionId, error } of await answer.json()) {
    if (!success) console.error(`${transactionId} is delivered again: ${error}`) // the lease had expired
  }
}

// work handles messages in order, up to the first failure. The server delivers the failed message again after 1 s, 2
// s, 4 s, and so on, at most 60 s. After the last retry of the queue, the message becomes a dead letter. `retry` for
// the next message ends the lease, so any consumer of the group can receive the remaining messages.
// The program must handle all messages within the leaseTime of the queue (default 5 minutes).
async function work(messages) {
  const results = []
  let failed = false
  for (const { transactionId, partitionId, leaseId, attempt, data } of messages) {
    const result = { transactionId, partitionId, leaseId, status: 'completed' }
    results.push(result)
    if (failed || stopped.aborted) {
      result.status = 'retry'
      break
    }
    try {
      await handle(data)
    } catch (error) {
      failed = true
      console.error(`failed: ${error.message}`)
      Object.assign(result, { status: 'failed', error: error.message, retryAfter: Math.min(2 ** (attempt - 1), 60) })
    }
  }
  return results
}

// repeat calls an action until it succeeds, with pauses of 0.1 s to 5 s. `signal` ends the repetition.
async function repeat(action, signal) {
  for (let wait = 100; ; wait = Math.min(2 * wait, 5_000)) {
    try {
      return await action()
    } catch (error) {
      if (signal.aborted) throw error
      console.error(`the program tries again in ${wait} ms: ${error.cause?.message ?? error.message}`)
      await pause(wait, undefined, { signal })
    }
  }
}

try {
  while (!stopped.aborted) {
    const messages = await repeat(pop, stopped)
    if (messages.length === 0) continue
    const results = await work(messages)
    await repeat(() => ack(results), AbortSignal.timeout(60_000)) // the program also sends the acks while it stops
  }
} catch (error) {
  if (!stopped.aborted || error.name !== 'AbortError') throw error
}
console.log('stopped')
