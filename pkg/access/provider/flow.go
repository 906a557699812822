package provider

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"go.uber.org/zap"
	"golang.org/x/oauth2"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// FlowAge is how long a person has for the sign-in at the provider.
const FlowAge = 10 * time.Minute

// flow has the values of a sign-in that has begun. It is in a sealed cookie of the browser.
type flow struct {
	State    string    `json:"s"`
	Nonce    string    `json:"n"`
	Verifier string    `json:"v"` // the secret of PKCE
	Redirect string    `json:"r"`
	Next     string    `json:"p"`
	BegunAt  time.Time `json:"t"`
}

// Begin begins a sign-in. It returns the URL to which the browser goes, and the value of a cookie for Finish. redirect is
// the URL of the callback, if auth.redirect_url is empty. Finish returns next. Errors: CodeUnavailable if the provider does
// not answer, CodeOverloaded.
func (p *Provider) Begin(ctx context.Context, redirect, next string) (to, cookie string, err error) {
	ctx, end, err := p.call(ctx)
	if err != nil {
		return "", "", err
	}
	defer end()
	m, err := p.discover(ctx)
	if err != nil {
		return "", "", err
	}
	if p.cfg.RedirectURL != "" {
		redirect = p.cfg.RedirectURL
	}
	f := flow{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Redirect: redirect, Next: next, BegunAt: time.Now()}
	if cookie, err = p.flows.seal(f); err != nil {
		return "", "", err
	}
	return p.oauth(m, redirect).AuthCodeURL(f.State, oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)), cookie, nil
}

// Finish finishes a sign-in. cookie comes from Begin, and answer is the query of the callback. It returns the session, and
// the text next of Begin. Next is also returned with an error if the cookie is valid. Errors: CodeUnauthenticated with a text
// for the person, CodeUnavailable if the provider does not answer, CodeOverloaded.
func (p *Provider) Finish(ctx context.Context, cookie string, answer url.Values) (s *Session, next string, err error) {
	f, err := p.opened(cookie, answer)
	if err != nil {
		return nil, f.Next, err
	}
	ctx, end, err := p.call(ctx)
	if err != nil {
		return nil, f.Next, err
	}
	defer end()
	m, err := p.discover(ctx)
	if err == nil {
		err = p.checkAnswer(m, answer)
	}
	if err != nil {
		return nil, f.Next, err
	}
	got, err := p.oauth(m, f.Redirect).Exchange(ctx, answer.Get("code"), oauth2.VerifierOption(f.Verifier))
	if err != nil {
		return nil, f.Next, p.refusedToken("exchanging the code", err)
	}
	text, _ := got.Extra("id_token").(string)
	id, err := p.verifyID(ctx, m, text)
	if err == nil && subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(f.Nonce)) != 1 {
		err = refused("the ID token of the identity provider belongs to another sign-in", nil)
	}
	if err == nil && id.AccessTokenHash != "" && id.VerifyAccessToken(got.AccessToken) != nil {
		err = refused("the access token of the identity provider does not belong to its ID token", nil)
	}
	if err == nil {
		s, err = p.session(ctx, got, text, "")
	}
	if err != nil {
		p.log.Warn("a person could not sign in with the identity provider", zap.Error(err))
	}
	return s, f.Next, err
}

// opened returns the flow of a cookie, if the answer belongs to it.
func (p *Provider) opened(cookie string, answer url.Values) (f flow, err error) {
	if cookie == "" {
		return f, refused("this browser has begun no sign-in, or has finished it already", nil)
	}
	if err := p.flows.open(cookie, &f); err != nil {
		return flow{}, refused(errSeal.Error(), err)
	}
	switch age := time.Since(f.BegunAt); {
	case age > FlowAge || age < -FlowAge:
		return f, refused(fmt.Sprintf("the sign-in took longer than %.0f minutes", FlowAge.Minutes()), nil)
	case subtle.ConstantTimeCompare([]byte(answer.Get("state")), []byte(f.State)) != 1:
		return f, refused("the answer belongs to another sign-in, perhaps to one in another tab", nil)
	}
	return f, nil
}

// checkAnswer returns an error if another provider has made the answer, or if the answer has no code.
func (p *Provider) checkAnswer(m *metadata, answer url.Values) error {
	switch issuer := answer.Get("iss"); {
	case issuer != "" && issuer != p.cfg.Issuer, issuer == "" && m.NamesIssuer:
		return refused("the answer comes from another identity provider than "+p.cfg.Issuer, nil)
	case answer.Get("error") == "access_denied":
		return refused("the identity provider has denied access, or you have cancelled the sign-in", nil)
	case answer.Get("error") != "":
		p.log.Warn("the identity provider has refused a sign-in", zap.String("error", answer.Get("error")), zap.String("description", answer.Get("error_description")))
		return refused(fmt.Sprintf("the identity provider has answered with the error %.100q", answer.Get("error")), nil)
	case answer.Get("code") == "":
		return refused("the answer of the identity provider has no code", nil)
	}
	return nil
}

// refusedToken returns the error for a failed request of a token.
func (p *Provider) refusedToken(what string, err error) error {
	var answer *oauth2.RetrieveError
	if !errors.As(err, &answer) || answer.Response.StatusCode >= 500 {
		return p.unavailable(what, err)
	}
	p.log.Warn("the identity provider has returned no token", zap.String("call", what), zap.String("error", answer.ErrorCode), zap.String("description", answer.ErrorDescription))
	text := "the identity provider has refused the code: it was used already, or has expired"
	if answer.ErrorCode != "invalid_grant" {
		text = fmt.Sprintf("the identity provider has refused to return a token, with the error %.100q", answer.ErrorCode)
	}
	return &queue.Error{Code: queue.CodeUnauthenticated, Message: text, Err: err}
}
