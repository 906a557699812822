// Package queen has the routes and answers that exist only for the clients and the dashboard of Queen MQ 0.15. No command,
// page, client or guide of Belfry needs them. docs/compatibility.md lists them.
//
// Only pkg/httpapi imports it. To remove the package, also remove the function queenRoutes of the route table, and the members
// shared_state and queen of GET /health. The package uses observe for figures that other routes show too.
//
// It promises that each answer has the members that clients of Queen MQ read. Figures that Belfry does not have are 0 or empty.
package queen
