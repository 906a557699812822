#!/bin/sh
# Restarts a running service after an upgrade. A first installation starts nothing, because the service needs a DSN.
# Debian calls this with "configure" and the version before, or no version. RPM calls this with the number of
# installed versions.
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  systemctl try-restart belfry.service
fi
if [ "$1" = 1 ] || { [ "$1" = configure ] && [ -z "$2" ]; }; then
  echo 'Set BELFRY_DATABASE_URL in /etc/belfry/belfry.env, then run: systemctl enable --now belfry'
fi
