// Package doctor examines the database and the process of a server. Its report lists the problems, their
// consequences and the next steps. The route GET /api/v1/doctor and the command `belfry doctor` show the report.
//
// A check has a code that stays the same in later versions. docs/runbook.md has a section for each code.
//
//   - Each check gives a finding: ok, warning, wrong or unknown. Unknown means that the check could not
//     be done. The finding says why.
//   - A failed check does not stop the others. Each check has a time limit.
//   - The checks read system views and a few rows of Belfry's tables. They do not count messages.
//   - All checks share one connection, and each check runs in a read-only transaction. The check of LISTEN
//     sends one notification, on a channel that only the doctor uses. The checks of the schema and of the
//     pooler open a second connection for a moment.
//   - Without a server (Config.Process is nil) the checks of the process are unknown.
package doctor
