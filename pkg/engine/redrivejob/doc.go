// Package redrivejob runs redrives of dead letters as jobs of the server. A job is a row of belfry.redrive_job.
//
//  1. Start writes the row, and the row of the audit. A notification wakes the instances.
//  2. One instance leases the job. It redrives page by page. The transaction of a page also counts the messages in the row, and
//     renews the lease. So the count is exact, and an instance that lost the lease redrives nothing more.
//  3. If the instance dies, its lease ends. Another instance then takes the job and continues. A redriven message is no dead
//     letter any more, so no message is redriven twice.
//  4. A job is bounded to the dead letters of a count, as the other redrives are. In another epoch of the database the snapshot of
//     the count is not valid, so the job counts again. It redrives no more than what was left, and no dead letter that failed
//     after its start.
//  5. Stop changes the state of the row. The next page finds the change, and rolls back.
//
// Without a running job, an instance sends no statement: it waits for the notification. While a job runs, the other instances
// ask when its lease ends.
package redrivejob
