package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"go.uber.org/zap"
	"golang.org/x/oauth2"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/access/token"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// metadataAge is how long the metadata of the provider is used without another read.
	metadataAge = time.Hour
	// maxAnswer limits an answer of the provider in bytes.
	maxAnswer = 1 << 20
	// maxCalls is the maximum number of calls to the provider at the same time.
	maxCalls = 16
)

// Verifier verifies the token of a session. *token.Verifier implements it.
type Verifier interface {
	Verify(ctx context.Context, text string) (*identity.Principal, error)
	// IsRevoked reports whether the token with an id (jti) is revoked.
	IsRevoked(id string) bool
}

// Provider signs people in with the identity provider at auth.issuer. It is safe for concurrent use.
type Provider struct {
	cfg      token.Config
	verifier Verifier
	log      *zap.Logger
	client   *http.Client
	flows    sealer
	sessions sealer
	// calls has an element for each call to the provider.
	calls     chan struct{}
	refreshes refreshes

	mu       sync.Mutex // held during a read of the metadata
	metadata *metadata
}

// metadata describes the endpoints of the provider.
type metadata struct {
	*oidc.Provider
	readAt time.Time

	EndSession  string   `json:"end_session_endpoint"`
	NamesIssuer bool     `json:"authorization_response_iss_parameter_supported"`
	AuthMethods []string `json:"token_endpoint_auth_methods_supported"`
	Algorithms  []string `json:"id_token_signing_alg_values_supported"`
}

// New returns the Provider of a configuration that has passed Validate and has a client. It does not call the provider.
func New(cfg token.Config, verifier Verifier, log *zap.Logger) (*Provider, error) {
	flows, err := newSealer(cfg.ClientSecret.Reveal(), "sign-in")
	if err != nil {
		return nil, err
	}
	sessions, err := newSealer(cfg.ClientSecret.Reveal(), "session")
	if err != nil {
		return nil, err
	}
	return &Provider{
		cfg: cfg, verifier: verifier, log: log, flows: flows, sessions: sessions, calls: make(chan struct{}, maxCalls),
		client: &http.Client{Transport: boundedAnswers{http.DefaultTransport}, Timeout: cfg.FetchTimeout},
	}, nil
}

// Issuer returns the URL of the provider.
func (p *Provider) Issuer() string { return p.cfg.Issuer }

// boundedAnswers ends the body of each answer with an error after maxAnswer.
type boundedAnswers struct{ http.RoundTripper }

func (b boundedAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Body = http.MaxBytesReader(nil, answer.Body, maxAnswer)
	}
	return answer, err
}

// call returns a context for calls to the provider, of at most auth.jwks_timeout each. The caller calls end afterwards.
// Errors: CodeOverloaded if maxCalls calls are in flight.
func (p *Provider) call(ctx context.Context) (calling context.Context, end func(), err error) {
	select {
	case p.calls <- struct{}{}:
		return oidc.ClientContext(ctx, p.client), func() { <-p.calls }, nil
	default:
		return nil, nil, &queue.Error{
			Code: queue.CodeOverloaded, RetryAfter: time.Second, Message: "too many people sign in with the identity provider at the same time; try again in a moment",
		}
	}
}

// discover returns the metadata of the provider. It reads the metadata if the last read is older than metadataAge.
// ctx comes from call. Errors: CodeUnavailable.
func (p *Provider) discover(ctx context.Context) (*metadata, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.metadata != nil && time.Since(p.metadata.readAt) < metadataAge {
		return p.metadata, nil
	}
	found, err := oidc.NewProvider(ctx, p.cfg.Issuer)
	read := &metadata{Provider: found, readAt: time.Now()}
	if err == nil {
		err = found.Claims(read)
	}
	if err != nil {
		return nil, p.unavailable("reading the metadata", err)
	}
	p.metadata = read
	return read, nil
}

// unavailable logs a failed call to the provider, and returns CodeUnavailable with a text for the person. The text
// does not contain the answer of the provider.
func (p *Provider) unavailable(what string, err error) error {
	text := "the identity provider " + p.cfg.Issuer + " does not answer"
	var other *oidc.IssuerMismatchError
	if errors.As(err, &other) {
		text = fmt.Sprintf("the identity provider calls itself %.200q, but auth.issuer is %q: an administrator must correct auth.issuer", other.Discovered, p.cfg.Issuer)
	}
	p.log.Warn("a call to the identity provider failed; people can sign in with a token", zap.String("call", what), zap.String("issuer", p.cfg.Issuer), zap.Error(err))
	return &queue.Error{Code: queue.CodeUnavailable, RetryAfter: time.Second, Message: text, Err: err}
}

// oauth returns the client of this server at the provider.
func (p *Provider) oauth(m *metadata, redirect string) *oauth2.Config {
	endpoint := m.Endpoint()
	endpoint.AuthStyle = oauth2.AuthStyleInHeader // the default of OpenID Connect, section 9
	if len(m.AuthMethods) > 0 && !slices.Contains(m.AuthMethods, "client_secret_basic") {
		endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	return &oauth2.Config{
		ClientID: p.cfg.ClientID, ClientSecret: p.cfg.ClientSecret.Reveal(), Endpoint: endpoint, RedirectURL: redirect, Scopes: p.cfg.Scopes,
	}
}

// verifyID verifies an ID token: its signature, issuer, audience and expiry. It tolerates clocks that differ by
// auth.clock_skew. Errors: CodeUnauthenticated.
func (p *Provider) verifyID(ctx context.Context, m *metadata, text string) (*oidc.IDToken, error) {
	id, err := m.Verifier(&oidc.Config{
		ClientID: p.cfg.ClientID, SupportedSigningAlgs: p.algorithms(),
		Now: func() time.Time { return time.Now().Add(-p.cfg.ClockSkew) },
	}).Verify(ctx, text)
	if err != nil {
		return nil, refused("the ID token of the identity provider is not valid", err)
	}
	var claims struct {
		Party string `json:"azp"`
	}
	if err := id.Claims(&claims); err != nil || claims.Party != "" && claims.Party != p.cfg.ClientID {
		return nil, refused("the ID token of the identity provider belongs to another client", err)
	}
	return id, nil
}

// algorithms returns the algorithms of auth.algorithm that use a private key. ID tokens may use only these.
func (p *Provider) algorithms() []string {
	if p.cfg.Algorithm != token.Auto {
		return []string{p.cfg.Algorithm}
	}
	return []string{token.RS256, token.ES256, token.EdDSA}
}

// refused returns CodeUnauthenticated with a text for the person.
func refused(text string, err error) error {
	return &queue.Error{Code: queue.CodeUnauthenticated, Message: text, Err: err}
}
