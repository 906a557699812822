-- Returns whether the transactions of this session can only read.
SELECT current_setting('transaction_read_only') = 'on'
