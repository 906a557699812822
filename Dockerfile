# syntax=docker/dockerfile:1

FROM golang:1.26.8-bookworm AS build
WORKDIR /src

# The modules change less often than the code, so they have their own layer.
COPY go.mod go.sum ./
RUN go mod download

COPY . .
# The build has no git history, so the version is an argument.
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -tags release -trimpath -ldflags "-s -w -X github.com/belfry-mq/belfry/pkg/app.linkedVersion=${VERSION}" -o /belfry ./cmd/belfry && mkdir -p /var/lib/belfry

# The image has CA certificates, but no shell and no package manager. The binary contains the time zones.
FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY LICENSE THIRD_PARTY_NOTICES /
COPY --from=build /belfry /belfry
# Pushes during maintenance are kept here (spool.dir). Mount a volume that outlives the container.
COPY --from=build --chown=65532:65532 /var/lib/belfry /var/lib/belfry
USER 65532:65532
EXPOSE 6632

# Exits 0 when GET /livez returns 200. Some programs replace a container that is not healthy (Docker
# Swarm). That must not happen while the database is away or a migration runs.
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s --retries=3 CMD ["/belfry", "health", "--live"]

ENTRYPOINT ["/belfry"]
CMD ["serve"]
