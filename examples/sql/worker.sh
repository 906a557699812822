#!/usr/bin/env bash
# Runs worker.sql on the database DATABASE_URL until SIGTERM. psql reads notifications only after a statement. So the
# script sends an empty statement, which reads no table, five times per second. It pops only after a notification.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

stopping=
trap 'stopping=1' TERM INT
coproc psql "${DATABASE_URL:?}" --no-psqlrc --set ON_ERROR_STOP=1 --quiet --tuples-only --no-align 2>&1
exec 3<&"${COPROC[0]}" 4>&"${COPROC[1]}"
trap '' PIPE # ask detects the end of psql at the end of its output

# ask runs a statement and prints its output. It succeeds if a notification arrived.
ask() {
	local line notified=1
	printf '%s\n\\echo --end--\n' "$1" >&4 2>/dev/null || true
	while IFS= read -r line <&3; do
		case "$line" in
		--end--) return "$notified" ;;
		'Asynchronous notification '*) notified=0 ;;
		?*) echo "$line" ;;
		esac
	done
	echo 'psql has ended' >&2
	exit 1
}

ask '\i worker.sql' || true
ask 'CALL count_orders();' || true
while [[ -z "$stopping" ]]; do
	sleep 0.2
	if ask 'SELECT;'; then
		ask 'CALL count_orders();' || true
	fi
done
echo stopped
