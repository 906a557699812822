#!/bin/sh
# Tells systemd that the unit is gone. A purge on Debian also removes the user. If the spool still has pushes, a purge keeps
# the spool and the user.
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
if [ "$1" = purge ]; then
  if [ -d /var/lib/belfry ]; then
    find /var/lib/belfry -depth -type d -empty -delete
  fi
  if [ -d /var/lib/belfry ]; then
    echo 'belfry: /var/lib/belfry is not empty, so it stays with its user belfry' >&2
  elif getent passwd belfry >/dev/null; then
    userdel belfry
  fi
fi
