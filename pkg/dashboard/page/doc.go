// Package page has the parts that the pages of the dashboard share: the request for a page, the rights of the
// caller, the layout, the templates and their functions, the scripts and the style sheet. The single pages are
// in pkg/dashboard/pages.
//
// Links are relative and all pages are in one folder, so the dashboard works under any path of a proxy. Only
// pkg/dashboard and its packages may import this package.
package page
