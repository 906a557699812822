#!/bin/sh
# Stops the service before its files are removed. An upgrade does not stop it.
# Debian calls this with "remove" or "upgrade". RPM calls this with the number of versions that stay.
set -e
if [ "$1" = remove ] || [ "$1" = 0 ]; then
  if [ -d /run/systemd/system ]; then
    systemctl --no-reload disable --now belfry.service
  fi
fi
