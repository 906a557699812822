-- Reads facts that explain why Postgres refused a statement at the start. The columns: the quoted names
-- of the role, the database and the owner of the schema ('': no schema), whether Postgres is a standby,
-- and where default_transaction_read_only was set.
SELECT quote_ident(current_user), quote_ident(current_database()),
       coalesce((SELECT quote_ident(pg_get_userbyid(nspowner)) FROM pg_namespace WHERE nspname = 'belfry'), ''),
       pg_is_in_recovery(),
       (SELECT source FROM pg_settings WHERE name = 'default_transaction_read_only')
