# syntax=docker/dockerfile:1

FROM golang:1.26 AS build
WORKDIR /src

# The modules change less often than the code: they get a layer of their own.
COPY go.mod go.sum ./
RUN go mod download

COPY . .
# The image has no git history to read a version from.
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /belfry ./cmd/belfry

# No shell and no package manager; CA certificates and time zones are in it.
FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /belfry /belfry
USER 65532:65532
EXPOSE 6632

# Exits 0 when GET /health answers 200. The start period covers the wait for a
# database that is still starting.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["/belfry", "health"]

ENTRYPOINT ["/belfry"]
CMD ["serve"]
