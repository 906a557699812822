package token

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/access/identity"
)

// The values of auth.algorithm. Auto accepts every algorithm for which there is a key.
const (
	HS256 = "HS256"
	RS256 = "RS256"
	ES256 = "ES256"
	EdDSA = "EdDSA"
	Auto  = "auto"
)

// openID is the scope of OpenID Connect, without which a provider returns no ID token.
const openID = "openid"

// minClientSecret is the minimum length of the secret of the client in bytes. The keys that seal cookies are made from it.
const minClientSecret = 16

// minSecret is the minimum length of a secret in bytes. RFC 7518, section 3.2, requires it.
const minSecret = 32

// Config is the section "auth". config/belfry.yaml describes its keys.
type Config struct {
	Enabled         bool           `mapstructure:"enabled"`
	Algorithm       string         `mapstructure:"algorithm"`
	Secret          setting.Secret `mapstructure:"secret"`
	PreviousSecret  setting.Secret `mapstructure:"previous_secret"`
	PublicKey       string         `mapstructure:"public_key"`
	JWKSURL         string         `mapstructure:"jwks_url"`
	RefreshInterval time.Duration  `mapstructure:"jwks_refresh_interval"`
	FetchTimeout    time.Duration  `mapstructure:"jwks_timeout"`
	Issuer          string         `mapstructure:"issuer"`
	Audience        string         `mapstructure:"audience"`
	ClockSkew       time.Duration  `mapstructure:"clock_skew"`
	RoleClaim       string         `mapstructure:"role_claim"`
	RolesClaim      string         `mapstructure:"roles_claim"`
	AdminRole       string         `mapstructure:"admin_role"`
	ReadWriteRole   string         `mapstructure:"read_write_role"`
	ReadOnlyRole    string         `mapstructure:"read_only_role"`
	SkipPaths       []string       `mapstructure:"skip_paths"`
	// The fields below are for the sign-in with an identity provider; see the package provider.
	ClientID     string         `mapstructure:"client_id"`
	ClientSecret setting.Secret `mapstructure:"client_secret"`
	RedirectURL  string         `mapstructure:"redirect_url"`
	Scopes       []string       `mapstructure:"scopes"`
}

// DefaultConfig returns the values of config/belfry.yaml.
func DefaultConfig() Config {
	return Config{
		Algorithm: HS256, RefreshInterval: time.Hour, FetchTimeout: 5 * time.Second, ClockSkew: 30 * time.Second,
		RoleClaim: "role", RolesClaim: "roles",
		AdminRole: identity.Admin.String(), ReadWriteRole: identity.ReadWrite.String(), ReadOnlyRole: identity.ReadOnly.String(),
		SkipPaths: []string{"/health", "/metrics/prometheus", "/metrics", "/"},
		Scopes:    []string{openID, "profile"},
	}
}

// Validate returns one error that names every invalid value. The error contains no secret.
func (c Config) Validate() error {
	if !c.Enabled {
		return nil
	}
	_, err := c.publicKey()
	return errors.Join(
		setting.Check(slices.Contains([]string{HS256, RS256, ES256, EdDSA, Auto}, c.Algorithm),
			"auth.algorithm is %q: it must be HS256, RS256, ES256, EdDSA or auto", c.Algorithm),
		c.checkKeys(), err, c.checkURL(), c.checkClient(),
		setting.Positive("auth.jwks_refresh_interval", c.RefreshInterval),
		setting.Positive("auth.jwks_timeout", c.FetchTimeout),
		setting.Check(c.ClockSkew >= 0 && c.ClockSkew <= time.Hour, "auth.clock_skew is %s: it must be from 0s to 1h", c.ClockSkew),
		setting.Check(c.RoleClaim != "" || c.RolesClaim != "", "auth.role_claim and auth.roles_claim are empty: set one of them, because otherwise no token has a role"),
		c.checkRoles(),
		setting.Check(!slices.ContainsFunc(c.SkipPaths, func(path string) bool { return !strings.HasPrefix(path, "/") }),
			"auth.skip_paths has %q: each path must begin with /", c.SkipPaths),
	)
}

// checkKeys returns an error if the algorithm has no key, or if the algorithm does not use a key that is set.
func (c Config) checkKeys() error {
	public := c.PublicKey != "" || c.JWKSURL != ""
	switch {
	case c.Algorithm == Auto && c.Secret == "" && !public:
		return errors.New("auth.enabled is true without a key: set auth.secret, auth.public_key or auth.jwks_url")
	case c.Algorithm == HS256 && c.Secret == "":
		return errors.New("auth.secret is empty: HS256 (auth.algorithm) needs a secret")
	case c.Algorithm == HS256 && public:
		return errors.New("auth.public_key or auth.jwks_url is set, but HS256 (auth.algorithm) does not use it: set auth.algorithm to auto, or remove the setting")
	case c.Algorithm != HS256 && c.Algorithm != Auto && !public:
		return fmt.Errorf("auth.public_key and auth.jwks_url are empty: %s (auth.algorithm) needs one of them", c.Algorithm)
	case c.Algorithm != HS256 && c.Algorithm != Auto && c.Secret != "":
		return fmt.Errorf("auth.secret is set, but %s (auth.algorithm) does not use it: set auth.algorithm to auto, or remove auth.secret", c.Algorithm)
	case c.PreviousSecret != "" && c.Secret == "":
		return errors.New("auth.previous_secret is set without auth.secret: set auth.secret too")
	}
	return errors.Join(
		setting.Check(c.Secret == "" || len(c.Secret) >= minSecret, "auth.secret has fewer than %d bytes: create a secret with `openssl rand -hex 32`", minSecret),
		setting.Check(c.PreviousSecret == "" || len(c.PreviousSecret) >= minSecret, "auth.previous_secret has fewer than %d bytes", minSecret))
}

func (c Config) checkURL() error {
	return setting.Check(c.JWKSURL == "" || isWebURL(c.JWKSURL), "auth.jwks_url must be a URL that begins with https:// or http:// and has no user name")
}

// isWebURL reports whether a text is a URL of HTTP without a user name.
func isWebURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && u.User == nil && (u.Scheme == "https" || u.Scheme == "http")
}

// checkClient returns an error if the settings of the sign-in with an identity provider are incomplete.
func (c Config) checkClient() error {
	if c.ClientID == "" {
		return setting.Check(c.ClientSecret == "" && c.RedirectURL == "",
			"auth.client_secret or auth.redirect_url is set without auth.client_id: set auth.client_id too, or remove the setting")
	}
	return errors.Join(
		setting.Check(isWebURL(c.Issuer), "auth.issuer is %q: with auth.client_id it must be the URL of the identity provider, which begins with https:// or http://", c.Issuer),
		setting.Check(len(c.ClientSecret) >= minClientSecret, "auth.client_secret has fewer than %d bytes: auth.client_id needs the secret of the client", minClientSecret),
		setting.Check(c.Algorithm != HS256, "auth.algorithm is HS256, but an identity provider (auth.client_id) signs with a private key: set RS256, ES256, EdDSA or auto, and auth.jwks_url"),
		setting.Check(c.PublicKey != "" || c.JWKSURL != "", "auth.jwks_url is empty: the server needs the keys of the identity provider of auth.client_id"),
		setting.Check(c.RedirectURL == "" || isWebURL(c.RedirectURL) && strings.HasSuffix(c.RedirectURL, "/ui/callback"),
			"auth.redirect_url is %q: it must be the URL of the dashboard as browsers see it, and end with /ui/callback", c.RedirectURL),
		setting.Check(slices.Contains(c.Scopes, openID), "auth.scopes is %q: it must contain openid", c.Scopes),
	)
}

func (c Config) checkRoles() error {
	names := []string{c.AdminRole, c.ReadWriteRole, c.ReadOnlyRole}
	distinct := slices.Compact(slices.Sorted(slices.Values(names)))
	return setting.Check(len(distinct) == len(names) && distinct[0] != "",
		"auth.admin_role, auth.read_write_role and auth.read_only_role are %q: they must be distinct and not empty", names)
}

// Skips reports whether requests to path need no token because of auth.skip_paths. An element of skip_paths
// matches the same path. An element other than "/" that ends with a slash also matches every path below.
func (c Config) Skips(path string) bool {
	return slices.ContainsFunc(c.SkipPaths, func(skip string) bool {
		return path == skip || len(skip) > 1 && strings.HasSuffix(skip, "/") && strings.HasPrefix(path, skip)
	})
}
