package pages

import (
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

// access shows the revoked tokens and the grants in SQL, with forms that change them.
func access(r *page.Request) (*page.Content, error) {
	found, err := source.Read[api.Rights](r.Ctx, r.Client, r.Caller, "/api/v1/rights")
	if err != nil {
		return nil, err
	}
	return &page.Content{Title: "Access", Data: found, Commands: []page.Command{
		r.Get("List the revoked tokens and the grants in SQL", "/api/v1/rights"),
	}}, nil
}
