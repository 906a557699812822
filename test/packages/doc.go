// Package packages tests what users install: the files of a release, the package for Debian on this machine, the package for Red
// Hat, the unit of systemd, and the workflows that publish a release.
//
// The tests build a release for linux/amd64 only. They need root and the programs dpkg, rpm and systemd-analyze, so they have
// the build tag installed. No package imports this package.
package packages
