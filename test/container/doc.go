// Package container builds the image of Belfry and runs it with podman, alone and with docker-compose.yml. It has the build
// tag installed: it needs Linux, root, debootstrap, podman with runc, and podman-compose.
//
// There may be no registry of images, so an image of Debian packages stands in for the two images that the Dockerfile and
// docker-compose.yml name. It has Postgres with testdata/postgres-entrypoint, which does what the tests need of the entry point
// of the real image. Go and its caches come from the machine.
//
// Each run has its own storage and networks. The images and containers of other users of podman stay as they are.
package container
