-- Returns the process id of the Postgres process that serves the connection.
SELECT pg_backend_pid()
