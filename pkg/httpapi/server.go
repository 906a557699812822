package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/catalog"
	"github.com/belfry-mq/belfry/pkg/dispatch"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/stats"
)

// Verbs are the verbs of producers and consumers that answer at once.
type Verbs interface {
	Push(ctx context.Context, items []queue.PushItem) ([]queue.PushResult, error)
	Ack(ctx context.Context, items []queue.AckItem) ([]queue.AckResult, error)
	Extend(ctx context.Context, lease queue.ID, d time.Duration) (time.Time, error)
	Transact(ctx context.Context, tx *queue.Transaction) (queue.TransactionResult, error)
}

// Popper answers pops, waiting ones included.
type Popper interface {
	Pop(ctx context.Context, req *queue.PopRequest) (*queue.Delivery, error)
	Release(ctx context.Context, delivery *queue.Delivery)
	Waiting() int
	Status() dispatch.Status
}

// Catalog has the verbs of an operator.
type Catalog interface {
	Configure(ctx context.Context, settings catalog.Settings) (catalog.Configured, error)
	Delete(ctx context.Context, queueName string) (existed bool, err error)
}

// GroupVerbs change consumer groups.
type GroupVerbs interface {
	DeleteGroup(ctx context.Context, group string, queueName *string, keepSubscription bool) (catalog.DeletedGroup, error)
	MoveSubscription(ctx context.Context, group string, start time.Time) (moved int64, err error)
	Seek(ctx context.Context, queueName, group string, place catalog.Place) (moved int64, err error)
	SeekPartition(ctx context.Context, queueName, group, partition string, place catalog.Place) (catalog.SoughtPartition, error)
}

// GroupReader tells how consumer groups stand.
type GroupReader interface {
	List(ctx context.Context) ([]stats.Group, error)
	Group(ctx context.Context, name string, limit int) ([]stats.QueueProgress, error)
	Lagging(ctx context.Context, over time.Duration, limit int) ([]stats.LaggingPartition, error)
}

// Resources tells what queues hold.
type Resources interface {
	Queues(ctx context.Context, filter stats.QueueFilter) ([]stats.Queue, error)
	Queue(ctx context.Context, name string, after *string, limit int) (stats.QueueDetail, error)
	Exists(ctx context.Context, name string) error
	Namespaces(ctx context.Context) ([]stats.Tag, error)
	Tasks(ctx context.Context) ([]stats.Tag, error)
	Overview(ctx context.Context) (stats.Overview, error)
	Sweeps(ctx context.Context) ([]stats.Sweep, error)
	Messages(ctx context.Context, filter stats.MessageFilter) (stats.MessageList, error)
}

// Deps are what the routes call.
type Deps struct {
	Verbs       Verbs
	Popper      Popper
	Catalog     Catalog
	GroupVerbs  GroupVerbs
	GroupReader GroupReader
	Resources   Resources
	Letters     Letters
	Traces      Traces
	// Ping asks the database for a sign of life.
	Ping func(ctx context.Context) error
	// Listener tells the state of the LISTEN connection.
	Listener func() ListenerState
	// Inbox tells the state of the inbox. ctx ends it.
	Inbox    func(ctx context.Context) (InboxState, error)
	Metrics  *Metrics
	Defaults queue.Defaults
	Version  string
	Log      *zap.Logger
}

// headerTimeout bounds how long a client may take to send its headers, and
// idleTimeout how long a connection may rest between two requests.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
)

// Server serves the API on one listener.
type Server struct {
	deps Deps
	cfg  Config
	http *http.Server
	// draining is closed by Drain: /health answers 503 from then on.
	draining chan struct{}
}

// New returns a Server; Listen and Serve make it reachable.
func New(cfg Config, deps Deps) *Server {
	s := &Server{deps: deps, cfg: cfg, draining: make(chan struct{})}
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.HTTPErrorHandler = s.handleError
	s.routes(e)
	s.http = &http.Server{
		Handler: e, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		ErrorLog: zap.NewStdLog(deps.Log.Named("http")),
	}
	return s
}

// Handler returns the API as a handler.
func (s *Server) Handler() http.Handler { return s.http.Handler }

// Listen opens the listen address, so that a port in use is an error before
// anything is served.
func (s *Server) Listen(ctx context.Context) (net.Listener, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("listening on %s (http.addr): %w; choose another with --http-addr", s.cfg.Addr, err)
	}
	return ln, nil
}

// Serve answers requests until Shutdown, then returns nil.
func (s *Server) Serve(ln net.Listener) error {
	if err := s.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving on %s: %w", ln.Addr(), err)
	}
	return nil
}

// Drain makes /health answer 503, so that a load balancer sends nothing new.
// Call it once.
func (s *Server) Drain() { close(s.draining) }

// Shutdown stops taking requests and waits for those in flight, for
// http.shutdown_timeout at most; then their connections are closed.
func (s *Server) Shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ShutdownTimeout)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		closing := s.http.Close()
		return fmt.Errorf("requests were still in flight after %s (http.shutdown_timeout) and were cut off: %w",
			s.cfg.ShutdownTimeout, errors.Join(err, closing))
	}
	return nil
}
